"""Results of benchmarks name the processor and what decides which kernels it runs."""

from __future__ import annotations

import json
import sys

import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import _measure
from _machine import cpu_facts, machine_facts, onednn_setting, processor_key, processor_text

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8488C
flags\t\t: fpu sse4_1 avx avx2 avx512f avx512bw avx512_bf16 amx_bf16 avx512_fp16 amx_tile

processor\t: 1
model name\t: another one
flags\t\t: fpu
"""
OTHER = {"cpu": "AMD EPYC", "instructions": ["avx2", "avx512f", "avx512_bf16"], "onednn": ""}


def test_a_processor_is_its_name_and_its_instruction_sets():
    facts = cpu_facts(CPUINFO)
    assert facts == {
        "cpu": "Intel(R) Xeon(R) Platinum 8488C",
        "cpu_model": "GenuineIntel 6 143",
        "instructions": ["avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16"],
    }
    assert cpu_facts("") == {"cpu": "unknown", "cpu_model": "? ? ?", "instructions": []}
    assert processor_text(OTHER) == "AMD EPYC (avx2, avx512f, avx512_bf16)"
    assert processor_text({"cpu": "AMD EPYC"}) == "AMD EPYC"  # figures of before
    assert processor_key({**facts, "onednn": ""}) == "intel_r_xeon_r_platinum_8488c_amx_bf16"
    assert processor_key(OTHER) == "amd_epyc_avx512_bf16"
    assert processor_key({**OTHER, "onednn": "off"}) == "amd_epyc_avx512_bf16_onednn_off"
    assert {"cpu", "cpu_model", "instructions", "onednn"} <= machine_facts().keys()


@pytest.mark.parametrize(
    ("environment", "setting"),
    [
        ({}, ""),
        ({"TF_ENABLE_ONEDNN_OPTS": "1"}, ""),
        ({"TF_ENABLE_ONEDNN_OPTS": "0", "ONEDNN_MAX_CPU_ISA": "AVX2"}, "off"),
        ({"ONEDNN_MAX_CPU_ISA": "avx2", "DNNL_MAX_CPU_ISA": "SSE41"}, "at most AVX2"),
        ({"DNNL_MAX_CPU_ISA": "SSE41"}, "at most SSE41"),
    ],
)
def test_what_the_environment_takes_from_onednn_is_named(environment, setting):
    assert onednn_setting(environment) == setting


def test_figures_of_several_processors_stay_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(_measure, "RESULTS", tmp_path)
    facts = {**OTHER, "date": "2026-01-02"}
    for onednn in ("", "at most AVX2"):
        _measure.write_results("accuracy", {**facts, "onednn": onednn}, [onednn], by_processor=True)
    _measure.write_results("models", facts, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2026-01-02_accuracy_amd_epyc_avx512_bf16.json",
        "2026-01-02_accuracy_amd_epyc_avx512_bf16_onednn_at_most_avx2.json",
        "2026-01-02_models.json",
    ]
    rows = [json.loads(path.read_text())["rows"] for path in sorted(tmp_path.glob("*accuracy*"))]
    assert rows == [[""], ["at most AVX2"]]


def test_the_benchmark_of_the_page_finds_its_reports():
    """It lives apart from what it shares with the tests, and once lost it when that moved."""
    import report_page

    assert len(report_page.made_up(200)["details"]["buffers"]["bytes"]) > 100
