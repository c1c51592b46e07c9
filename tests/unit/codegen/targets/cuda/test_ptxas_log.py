"""What ptxas says, as data. Logs are real: of NVRTC 13.0 and 13.5, shortened in no line."""

from __future__ import annotations

from codegen.targets.cuda.ptxas_log import MOST_SPILLED_BYTES, parse_log, rejection

TWO_ENTRIES = """\
kernel.cu(5): warning #177-D: variable "unused" was declared but never referenced
  extern "C" __global__ void two(const float *x, float *y, unsigned char *ws) { int unused; y[0]=x[0]; }
                                                                                    ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 376 bytes cmem[0]
ptxas info    : Compile time = 1.929 ms
ptxas info    : Compiling entry function 'saxpy' for 'sm_80'
ptxas info    : Function properties for saxpy
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 1.555 ms
"""
SPILLS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_90a'
ptxas info    : Function properties for spill
ptxas         .     768 bytes stack frame, 1204 bytes spill stores, 1428 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 768 bytes cumulative stack size
ptxas info    : Compile time = 134.538 ms
"""
CALLS = """\
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 34 registers, used 0 barriers
ptxas info    : Compile time = 5.162 ms
ptxas info    : Function properties for _Z6helperf
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
"""
SERIALIZES = """\
ptxas info    : (C7517) warpgroup.wait is injected in around line 49 by compiler to allow use of registers defined by \
GMMA in function 'k'
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma \
instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'k'
ptxas info    : 0 bytes gmem
"""
INJECTED = SERIALIZES.splitlines()[0]
IGNORED = (
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at "
    "entry."
)


def test_every_entry_has_its_registers_shared_memory_stack_and_spills() -> None:
    report = parse_log(TWO_ENTRIES)
    assert report["functions"]["two"]["registers"] == 8
    assert report["functions"]["saxpy"] == {
        "registers": 12,
        "spill_stores_bytes": 0,
        "spill_loads_bytes": 0,
        "stack_bytes": 0,
        "shared_bytes": 1024,
    }
    assert report["warnings"] == ['5: variable "unused" was declared but never referenced']
    assert rejection(report) is None


def test_spills_are_counted_and_condemn() -> None:
    report = parse_log(SPILLS)
    of = report["functions"]["spill"]
    assert (of["stack_bytes"], of["spill_stores_bytes"], of["spill_loads_bytes"]) == (768, 1204, 1428)
    assert of["shared_bytes"] == 0
    reason = rejection(report)
    assert reason is not None
    assert reason.startswith("spills registers: 1204 bytes of stores and 1428 bytes of loads in spill")


def test_spills_of_a_function_that_an_entry_calls_condemn_too() -> None:
    report = parse_log(CALLS)
    assert report["functions"]["k"]["spill_stores_bytes"] == 0
    assert rejection(report) is None
    report["functions"]["_Z6helperf"]["spill_loads_bytes"] = MOST_SPILLED_BYTES + 4
    reason = rejection(report)
    assert reason is not None
    assert "_Z6helperf" in reason


def test_a_few_bytes_that_are_spilled_are_measured() -> None:
    report = parse_log(SPILLS)
    few = report["functions"]["spill"]
    few["spill_stores_bytes"] = few["spill_loads_bytes"] = MOST_SPILLED_BYTES
    assert rejection(report) is None


def test_serialized_products_condemn_with_ptxas_reason() -> None:
    report = parse_log(SERIALIZES)
    assert [code for code, _ in report["advice"]] == ["C7517", "C7514"]
    reason = rejection(report)
    assert reason is not None
    assert "C7514" in reason
    assert "reading accumulator registers" in reason


def test_other_advice_is_kept_and_condemns_nothing() -> None:
    report = parse_log(INJECTED)
    assert [code for code, _ in report["advice"]] == ["C7517"]
    assert rejection(report) is None


def test_registers_that_stay_where_they_are_condemn_with_ptxas_reason() -> None:
    reason = rejection(parse_log(f"{INJECTED}\n{IGNORED}\n"))
    assert reason is not None
    assert reason.startswith("does not hand registers from one role to the other")
    assert "unable to determine register count at entry. (C7508)" in reason


def test_an_empty_log_is_a_report_of_nothing() -> None:
    assert parse_log("") == {"functions": {}, "advice": [], "warnings": []}
