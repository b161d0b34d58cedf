"""Two workers on this machine, each in a process of its own and in 60% of its activations' memory.

python examples/distributed.py

The first process starts the workers, each with the same program and a TF_CONFIG that says which one
it is. On a cluster that is done by whatever starts your jobs; the program is the same.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile

WORKERS = 2


def start_workers():
    sockets = [socket.socket() for _ in range(WORKERS)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    with tempfile.TemporaryDirectory() as reports:
        children = []
        for index in range(WORKERS):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(task),
                "REPORTS": reports,
                "TF_CPP_MIN_LOG_LEVEL": "2",
            }
            children.append(subprocess.Popen([sys.executable, __file__], env=environment))
        codes = [child.wait() for child in children]
        import lms

        print(lms.gather_reports(reports))
    sys.exit(max(codes))


def train():
    import lms
    import tensorflow as tf

    # The strategy comes first: it has to be there before TensorFlow does anything.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    lms.enable(memory_budget="60%")  # the same call on every worker

    rows = 2048  # of each worker
    with strategy.scope():
        layers = [tf.keras.layers.Dense(256, "tanh") for _ in range(8)]
        model = tf.keras.Sequential([tf.keras.Input((256,), batch_size=rows), *layers])
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    def data(context):
        x = tf.random.stateless_normal([rows, 256], seed=[1, context.input_pipeline_id])
        return tf.data.Dataset.from_tensors((x, tf.sin(x))).repeat()

    batches = iter(strategy.distribute_datasets_from_function(data))

    def replica(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            share = loss / strategy.num_replicas_in_sync
        slopes = tape.gradient(share, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce("MEAN", strategy.run(replica, args=(batch,)), axis=None)

    index = strategy.cluster_resolver.task_id
    for number in range(5):
        loss = step(next(batches))
        if index == 0:
            print(f"step {number}: loss {float(loss):.4f}", flush=True)
    lms.gather_reports(os.environ["REPORTS"])


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        train()
    else:
        start_workers()
