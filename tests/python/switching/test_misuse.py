"""What people get wrong: a clear error, and nothing has changed."""

import lms
import pytest
import tensorflow as tf
from helpers import lms_nodes, make_step, optimized_nodes, reports_on
from lms._control import switch as _switch
from lms._settings.swap_options import grouped
from tensorflow.python.eager import context
from v1_session import train


def state():
    return _switch.current(), context.FunctionCallOptions.as_attrs, tf.compat.v1.Session.__init__


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_buget": "1GiB"}, r"unknown option 'memory_buget' \(did you mean 'memory_budget'"),
        ({"swap_too": "disk"}, r"unknown option 'swap_too' \(did you mean 'swap_to'"),
        ({"colour": 3}, "unknown option 'colour'; the options are dump_graphs"),
        ({"memory_budget": -1}, "memory_budget=-1 is not a positive number of bytes; accepted: "),
        ({"memory_budget": "lots"}, "memory_budget='lots' is not a memory size; accepted: "),
        ({"memory_budget": "130%"}, "memory_budget='130%' is not a percentage"),
        (
            {"memory_budget": "min", "recompute": False, "reorder": False, "swap": False},
            "leaves nothing",
        ),
        ({"swap_disk_limit": "8GiB"}, "swap_disk_limit with swap_to='host'"),
        ({"swap_sync": "both", "swap_in_ahead": 3}, "swap_in_ahead with a swap_sync of 'in'"),
        ({"swap_include": ["a/b"], "swap_exclude": ["a"]}, "swap_exclude='a' takes back all of"),
    ],
)
@pytest.mark.parametrize("already", [False, True])
def test_wrong_options_change_nothing(options, message, already):
    if already:
        lms.enable("60%")
    before = state()
    with pytest.raises(lms.OptionError, match=message):
        lms.enable(**grouped(options))
    assert state() == before


def test_a_budget_under_the_resident_weights_is_infeasible():
    step, weights = make_step()
    nodes = optimized_nodes(step)
    resident = sum(weight.numpy().nbytes for weight in weights)
    lms.enable(resident // 2)
    report_nodes = optimized_nodes(step)
    report = reports_on(step)[0]
    assert report.status == "infeasible"
    assert report.min_budget_bytes > resident
    assert "least feasible budget" in str(report)
    # The budget that the report names is one that can be had.
    lms.enable(report.min_budget_bytes)
    step()
    assert reports_on(step)[-1].status in ("rewritten", "fits")
    assert len(report_nodes) >= len(nodes)


def test_a_step_that_fits_is_left_alone():
    step, _ = make_step()
    nodes = optimized_nodes(step)
    lms.enable("64GiB")
    assert optimized_nodes(step) == nodes
    assert {report.status for report in reports_on(step)} == {"fits"}
    assert lms_nodes(step) == []


def test_misuse_in_an_entry_written_by_hand_is_reported():
    """No Python sees such an entry: the report has the parser's words, and training goes on."""
    config = tf.compat.v1.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "LmsOptimizer"
    entry.parameter_map["memory_buget"].s = b"1GiB"
    entry.parameter_map["recompute"].s = b"maybe"
    expected, _ = train(lambda graph: tf.compat.v1.Session(graph=graph))
    losses, nodes = train(lambda graph: tf.compat.v1.Session(graph=graph, config=config))
    assert losses == expected
    assert not [name for name in nodes if name.startswith("lms/")]
    report = lms.report()
    assert report.status == "failed"
    assert "memory_buget" in report.reason and "recompute" in report.reason
