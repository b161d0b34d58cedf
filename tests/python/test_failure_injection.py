"""A failure in any stage of the optimizer leaves training as it is without lms."""

import lms
import pytest
from helpers import make_step, optimized_nodes, reports_on
from lms import _native


@pytest.fixture(scope="module")
def stock():
    step, weights = make_step()
    losses = [step().numpy() for _ in range(3)]
    return losses, [weight.numpy().tobytes() for weight in weights]


def test_there_are_stages():
    assert len(_native.stages()) >= 5
    assert len(set(_native.stages())) == len(_native.stages())


@pytest.mark.parametrize("stage", _native.stages())
def test_training_goes_on_unchanged(stage, stock):
    step, weights = make_step()
    nodes = optimized_nodes(step)
    for weight, fresh in zip(weights, make_step()[1]):
        weight.assign(fresh)
    lms.clear_reports()
    _native.inject_failure(stage)
    lms.enable("min")
    assert optimized_nodes(step) == nodes
    for weight, fresh in zip(weights, make_step()[1]):
        weight.assign(fresh)
    losses = [step().numpy() for _ in range(3)]
    assert losses == stock[0]
    assert [weight.numpy().tobytes() for weight in weights] == stock[1]
    report = reports_on(step)[0]
    assert report.status == "failed"
    assert report.stage == stage
    assert report.reason
    assert report.nodes_after == report.nodes_before
    assert lms.report().status == "failed"


def test_the_next_function_is_rewritten_again():
    _native.inject_failure(_native.stages()[0])
    lms.enable("min")
    make_step()[0]()
    _native.inject_failure("")
    step, _ = make_step()
    step()
    assert reports_on(step)[0].status == "rewritten"


def test_an_unknown_stage_is_an_error():
    with pytest.raises(ValueError, match="nonsense"):
        _native.inject_failure("nonsense")
