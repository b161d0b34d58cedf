"""All rooms, for what is made of all of them. Made by tools/rooms.py --write."""

CORE = [
    "//cc/core/base",
    "//cc/core/graph",
    "//cc/core/options",
    "//cc/core/order",
    "//cc/core/profile",
    "//cc/core/report",
    "//cc/core/search",
    "//cc/core/simulate",
    "//cc/core/spill",
    "//cc/core/system",
    "//cc/core/text",
]

TENSORFLOW = [
    "//cc/tf/graph",
    "//cc/tf/import",
    "//cc/tf/loops",
    "//cc/tf/pass",
    "//cc/tf/predict",
    "//cc/tf/report",
    "//cc/tf/rewrite",
    "//cc/tf/runtime",
    "//cc/tf/sizes",
    "//cc/tf/stock",
    "//cc/tf/verify",
]
