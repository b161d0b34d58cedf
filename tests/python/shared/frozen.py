"""To be imported after what is large: no collection of garbage looks at what has been imported."""

import gc

gc.collect()
gc.freeze()
