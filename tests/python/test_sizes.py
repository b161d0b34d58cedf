"""Dimensions that a function leaves unknown: what the run tells of them, and what the user says."""

import threading
import warnings

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import lms_nodes, make_open_step, reports_on
from lms import _native, _tf_arguments, _tf_context


def rows(count, width=64):
    return tf.random.Generator.from_seed(3).normal([count, width])


def measured_peak(step, *args):
    """Bytes at the peak of a call, less what was in use before."""
    before = lms.memory.bytes_in_use()
    lms.memory.reset_peak()
    step(*args)
    return lms.memory.peak_bytes() - before


@pytest.fixture
def no_warning():
    """Nothing is assumed: no report says so."""
    yield
    said = [text for report in lms.reports() for text in report.warnings]
    assert [text for text in said if "unknown_dim" in text] == []


# ---- Tensors ----


def test_a_step_with_an_open_batch_keeps_its_budget(no_warning):
    x, last = rows(512), rows(100)
    stock, _ = make_open_step()
    expected = [stock(x).numpy(), stock(x).numpy(), stock(last).numpy()]
    step, _ = make_open_step()
    lms.enable("60%")
    assert step(x).numpy() == expected[0]
    (report,) = reports_on(step)
    assert report.status == "rewritten"
    assert report.sizes == ("x:0 = 512 (first call)",)
    # Eight layers, each with a product and a tanh of 128 KiB.
    assert report.peak_before_bytes - report.resident_bytes > 8 * 2**17
    allowed = report.budget_bytes - report.resident_bytes
    assert measured_peak(step, x) <= allowed
    with _tf_context.override(None):
        assert measured_peak(step, x) > allowed
    # The last, smaller batch runs by the same plan.
    lms.clear_reports()
    step, _ = make_open_step()
    assert [step(x).numpy(), step(x).numpy(), step(last).numpy()] == expected
    (report,) = reports_on(step)
    assert report.sizes == ("x:0 = 512 (first call)",)


def test_a_larger_batch_is_planned_again(no_warning):
    step, _ = make_open_step()
    lms.enable("60%")
    for count in (256, 512, 300, 512):
        step(rows(count))
    assert [report.sizes for report in reports_on(step)] == [
        ("x:0 = 256 (first call)",),
        ("x:0 = 512 (a later call)",),
    ]
    (first, second) = reports_on(step)
    assert second.peak_before_bytes > 1.5 * first.peak_before_bytes
    assert lms_nodes(step, rows(512)) != []


def test_a_batch_that_grows_all_the_time_is_not_planned_all_the_time():
    step, _ = make_open_step(layers=2)
    lms.enable("60%")
    for count in range(64, 128):
        step(rows(count))
    # Three times exactly, then by a quarter: 64, 65, 66, 67, 83, 103, 128.
    assert [report.sizes[0].split()[2] for report in reports_on(step)] == [
        "64", "65", "66", "67", "83", "103", "128",
    ]  # fmt: skip


def test_each_argument_has_sizes_of_its_own():
    @tf.function(input_signature=[tf.TensorSpec([None, None]), {"b": [tf.TensorSpec([None, 3])]}])
    def step_of_two(x, named):
        y = tf.tanh(tf.reshape(x, [-1]))
        return tf.reduce_sum(y) + tf.reduce_sum(tf.exp(named["b"][0]))

    lms.enable("1GiB")
    step_of_two(tf.ones([3, 7]), {"b": [tf.ones([11, 3])]})
    (report,) = reports_on(step_of_two)
    assert set(report.sizes) == {
        "x:0 = 3 (first call)",
        "x:1 = 7 (first call)",
        "named:0 = 11 (first call)",
    }
    # Arguments, and of what is made no more than tanh or exp beside the reshaped x.
    assert report.resident_bytes >= (21 + 33) * 4


def test_a_function_that_leaves_nothing_open_is_looked_at_once():
    @tf.function(input_signature=[tf.TensorSpec([4, 64])])
    def closed_step(x):
        return tf.reduce_sum(tf.tanh(x))

    lms.enable("min")
    closed_step(rows(4))
    name = closed_step.get_concrete_function().name
    assert _tf_arguments._functions[name if isinstance(name, bytes) else name.encode()] is None


def test_gradients_outside_the_function():
    # Run under a tape, the function is split: its backward half is called with open shapes, too.
    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def forward_only(x):
        return tf.reduce_sum(tf.tanh(tf.tanh(x)))

    x = tf.Variable(rows(40))
    lms.enable("1GiB")
    with tf.GradientTape() as tape:
        loss = forward_only(x)
    tape.gradient(loss, x)
    assert lms.reports() != []
    for report in lms.reports():
        assert not report.warnings, report
        assert all("= 40 (first call)" in size for size in report.sizes)


def test_threads_that_call_one_function():
    step, _ = make_open_step(layers=3)
    lms.enable("60%")
    failures = []

    def work(count):
        try:
            for _ in range(5):
                step(rows(count))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(count,)) for count in (64, 128, 256)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert reports_on(step)[-1].sizes[0].startswith("x:0 = 256")


def test_a_function_called_by_a_function_that_is_called_by_a_function():
    inner, _ = make_open_step(layers=8)

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def middle(x):
        return inner(x) + 1

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def outer_step(x):
        return middle(x) * 2

    lms.enable("60%")
    outer_step(rows(512))
    assert reports_on(outer_step)[-1].sizes == ("x:0 = 512 (first call)",)
    assert reports_on(outer_step)[-1].status == "rewritten"


# ---- What the user says ----


def test_the_users_word_comes_first():
    step, _ = make_open_step()
    for asked, sizes in (
        (128, "x:0 = 128 (unknown_dim)"),
        ({"x": 64}, "x:0 = 64 (unknown_dim)"),
        ("x:0=32", "x:0 = 32 (unknown_dim)"),
        ({"y": 16}, "x:0 = 512 (first call)"),
    ):
        lms.clear_reports()
        with lms.enabled("60%", unknown_dim=asked):
            step(rows(512))
        assert [report.sizes for report in reports_on(step)] == [(sizes,)]


def test_a_word_that_contradicts_the_function_is_an_error_where_it_is_called():
    step, weights = make_open_step()
    before = [weight.numpy() for weight in weights]
    with lms.enabled("60%", unknown_dim={"x:1": 32}):
        for _ in range(2):
            with pytest.raises(lms.OptionError, match=r"x:1=32 contradicts the shape \[\?, 64\]"):
                step(rows(512))
    with lms.enabled("60%", unknown_dim="x:2=32"), pytest.raises(ValueError, match="x:2=32"):
        step(rows(512))
    assert all((a == b.numpy()).all() for a, b in zip(before, weights))
    with lms.enabled("60%", unknown_dim={"x:1": 64}):
        step(rows(512))
    assert reports_on(step)[-1].status == "rewritten"


def test_a_contradiction_in_an_entry_written_by_hand_is_a_failed_report():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "images")
        y = tf.reduce_sum(tf.tanh(x))
    for asked, status, size in (
        ("images:1=5", "failed", None),
        ("images=7", "fits", "images:0 = 7 (unknown_dim)"),
    ):
        lms.clear_reports()
        config = lms.configure(None, "1GiB", unknown_dim=asked)
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            session.run(y, {x: np.ones([3, 4])})
        report = lms.reports()[-1]
        assert report.status == status
        assert size is None or report.sizes == (size,)
        if status == "failed":
            assert "images:1=5 contradicts" in report.reason


def test_the_option_in_its_forms(monkeypatch):
    from lms import _switch

    lms.enable(unknown_dim={"images": np.int32(64), "tokens:1": 128, "": 8})
    assert _switch.current() == {"unknown_dim": "images=64, tokens:1=128, =8"}
    monkeypatch.setenv("LMS_UNKNOWN_DIM", "images=64")
    lms.enable()
    assert _switch.current() == {"unknown_dim": "images=64"}
    for bad in ({"x": 0}, {"x": True}, {"x": "3"}, {3: 4}, {}, {"a,b": 3}, {"x:y": 3}, "x", [4]):
        with pytest.raises(lms.OptionError, match="accepted: a positive whole number, or"):
            lms.enable(unknown_dim=bad)


def test_what_is_internal_is_no_option():
    with pytest.raises(lms.OptionError, match="unknown option '_seen_sizes'"):
        lms.enable(_seen_sizes="first call|0:0=3")


# ---- Iterators ----


def train_on(dataset, width=64):
    """A function that takes an iterator, after one call with an iterator on the dataset."""

    @tf.function
    def iterator_step(iterator):
        (x,) = next(iterator)
        return tf.reduce_sum(tf.tanh(tf.reshape(x, [-1, width])))

    lms.clear_reports()
    iterator_step(iter(dataset))
    return reports_on(iterator_step)[-1].sizes


def numbers(count=100, width=64):
    return tf.data.Dataset.from_tensor_slices((np.ones([count, width], np.float32),))


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda d: d.batch(32), 32),
        (lambda d: d.batch(32, num_parallel_calls=2).prefetch(1), 32),
        (lambda d: d.batch(400), 100),  # all rows there are
        (lambda d: d.repeat().batch(400), 400),
        (lambda d: d.shuffle(10).batch(8).cache().repeat(2).take(9).skip(1).shard(2, 0), 8),
        (lambda d: d.batch(8).filter(lambda x: True), 8),
        (lambda d: d.batch(8).with_options(tf.data.Options()), 8),
        (lambda d: d.batch(8).map(lambda x: (tf.concat([x, 2 * x], 0),)), 16),
        (lambda d: d.batch(8).map(lambda x: (x + 1,), num_parallel_calls=2), 8),
        (lambda d: d.batch(8).batch(3), 3),
        (lambda d: d.batch(8).unbatch().batch(5), 5),
        (lambda d: d.batch(8).concatenate(d.batch(12)), 12),
        (lambda d: d.batch(8).rebatch(20), 20),
        (lambda d: d.padded_batch(8, padded_shapes=([None],)), 8),
        (lambda d: tf.data.Dataset.sample_from_datasets([d.batch(8), d.batch(9)]), 9),
    ],
)
def test_the_batch_of_a_dataset(make, size):
    lms.enable("1GiB")
    sizes = train_on(make(numbers()))
    assert sizes[0] == f"iterator[0]:0 = {size} (dataset)"


def test_enumerate_and_zip():
    @tf.function
    def zipped_step(iterator):
        _, ((x,), (y,)) = next(iterator)
        return tf.reduce_sum(tf.tanh(x)) + tf.reduce_sum(tf.exp(y))

    lms.enable("1GiB")
    data = tf.data.Dataset.zip((numbers().batch(8), numbers(50).batch(12))).enumerate()
    zipped_step(iter(data))
    assert reports_on(zipped_step)[-1].sizes == (
        "iterator[1]:0 = 8 (dataset)",
        "iterator[2]:0 = 12 (dataset)",
    )


def test_what_cannot_be_known_is_assumed_and_said():
    lms.enable("1GiB")
    generator = tf.data.Dataset.from_generator(
        lambda: iter([(np.ones([5, 64]),)]), output_signature=(tf.TensorSpec([None, 64]),)
    )
    assert train_on(generator) == ("iterator[0]:0 = 32 (assumed)",)
    (warning,) = lms.reports()[-1].warnings
    assert "iterator[0]:0" in warning and "set unknown_dim" in warning
    with lms.enabled("1GiB", unknown_dim={"iterator": 5}):
        assert train_on(generator) == ("iterator[0]:0 = 5 (unknown_dim)",)
        assert lms.reports()[-1].warnings == ()


def test_nothing_of_the_data_is_consumed():
    @tf.function
    def take(iterator):
        return next(iterator)

    lms.enable("1GiB")
    iterator = iter(tf.data.Dataset.range(10).map(lambda i: i + 1).batch(4))
    assert [list(take(iterator).numpy()) for _ in range(3)] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_a_dataset_with_larger_batches_later(no_warning):
    @tf.function
    def iterator_step(iterator):
        (x,) = next(iterator)
        return tf.reduce_sum(tf.tanh(x))

    lms.enable("1GiB")
    for size in (8, 4, 20, 8):
        iterator_step(iter(numbers().batch(size)))
    assert [report.sizes[0] for report in reports_on(iterator_step)] == [
        "iterator[0]:0 = 8 (dataset)",
        "iterator[0]:0 = 20 (dataset)",
    ]


# ---- Keras ----


def make_model(width=64, layers=6):
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((width,))])
    for _ in range(layers):
        model.add(keras.layers.Dense(width, "tanh"))
    model.compile("sgd", "mse")
    return model


def planned():
    return [report for report in lms.reports() if report.status in ("rewritten", "infeasible")]


def data(count=1200, width=64):
    x = np.random.default_rng(5).normal(size=(count, width)).astype("float32")
    return x, x[:, ::-1].copy()


def test_fit_with_arrays_needs_no_hint(no_warning):
    x, y = data()
    stock = make_model().fit(x, y, batch_size=512, epochs=2, verbose=0).history["loss"]
    lms.enable("60%")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The last of three batches has 176 rows.
        history = make_model().fit(x, y, batch_size=512, epochs=2, verbose=0).history["loss"]
    assert history == stock
    report = lms.report()
    assert report.status == "rewritten"
    assert len(planned()) == 1
    assert set(report.sizes) == {
        "iterator[0]:0 = 512 (Keras batch_size)",
        "iterator[1]:0 = 512 (Keras batch_size)",
    }


def test_fit_with_fewer_rows_than_a_batch(no_warning):
    x, y = data(300)
    lms.enable("60%")
    make_model().fit(x, y, batch_size=512, verbose=0)
    assert lms.report().sizes[0] == "iterator[0]:0 = 300 (Keras batch_size)"


@pytest.mark.parametrize("drop", [True, False])
def test_fit_with_a_dataset_needs_no_hint(no_warning, drop):
    x, y = data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(512, drop_remainder=drop)
    lms.enable("60%")
    make_model().fit(dataset.prefetch(1), epochs=2, verbose=0)
    assert lms.report().status == "rewritten"
    assert lms.report().sizes[:1] == (() if drop else ("iterator[0]:0 = 512 (dataset)",))


def test_evaluate_predict_and_validation(no_warning):
    x, y = data()
    model = make_model()
    lms.enable("60%")
    model.fit(x, y, batch_size=512, verbose=0, validation_data=(x, y), validation_batch_size=500)
    model.evaluate(x, y, batch_size=256, verbose=0)
    # Its function takes the batch. Only the trace for the last, smaller one is open.
    model.predict(x, batch_size=128, verbose=0)
    sizes = [report.sizes for report in lms.reports() if report.sizes]
    found = {text.split(" = ")[1] for entry in sizes for text in entry}
    assert {"512 (Keras batch_size)", "500 (Keras batch_size)"} <= found
    assert "48 (first call)" in found


def test_several_steps_in_one_call(no_warning):
    x, y = data(2000)
    model = make_model()
    model.compile("sgd", "mse", steps_per_execution=2)
    lms.enable("1GiB")
    model.fit(x, y, batch_size=512, verbose=0)
    sizes = {text for report in lms.reports() for text in report.sizes}
    assert "iterator[0]:0 = 512 (Keras batch_size)" in sizes


def test_generators_and_py_datasets(no_warning):
    x, y = data(256)

    def generate():
        while True:
            yield x[:100], y[:100]
            yield x[:80], y[:80]

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return x[: 60 - index], y[: 60 - index]

    lms.enable("1GiB")
    make_model().fit(generate(), steps_per_epoch=2, verbose=0)
    make_model().fit(Batches(), verbose=0)
    found = {text for report in lms.reports() for text in report.sizes}
    assert "iterator[0]:0 = 100 (first batches of the Keras input)" in found
    assert "iterator[0]:0 = 60 (first batches of the Keras input)" in found


def test_two_fits_with_other_batch_sizes(no_warning):
    x, y = data(1000)
    model = make_model()
    lms.enable("60%", feedback=False)
    for size in (256, 64, 512):
        model.fit(x, y, batch_size=size, verbose=0)
    found = [r.sizes[0] for r in lms.reports() if r.sizes and r.status == "rewritten"]
    assert found == [
        "iterator[0]:0 = 256 (Keras batch_size)",
        "iterator[0]:0 = 512 (Keras batch_size)",
    ]


def test_the_door_to_the_parser():
    problems = _native.unknown_dim_problems("x:1=3", [("x", "", False, [[-1, 4]])])
    assert problems == ["unknown_dim: x:1=3 contradicts the shape [?, 4] of 'x'"]
    assert _native.unknown_dim_problems("x:1=3", [("x", "", False, [None])]) == []
