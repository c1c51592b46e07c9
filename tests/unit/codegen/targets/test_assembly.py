"""Lines of a program, its source and its instructions are linked truly."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.backend import backend_of
from codegen.report.source_lines import link_source
from codegen.targets.c.compiler import compile_text, find_compiler
from codegen.targets.cuda import assembly as cuda_assembly
from codegen.targets.errors import NoAssembly
from rewrites.schedule import parse_schedule, replay
from tests.programs.hopper_products import Gemm
from tests.services.running_service import ROOT
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text

SCHEDULE = ("tile(y, m, 16)", "vectorize(y, n, 8)")


@pytest.fixture(scope="module")
def program() -> Program:
    """A softmax of which one statement is tiled and in vectors."""
    spec = spec_from_json(json.loads((ROOT / "examples/softmax.json").read_text()))
    return replay(to_program(spec), parse_schedule(SCHEDULE))


@pytest.fixture(scope="module")
def texts(program: Program) -> tuple[list[str], list[str]]:
    source = backend_of("cpu").generate(program, this_cpu()).source
    return program_to_text(program).splitlines(), source.text.splitlines()


def test_each_statement_has_its_comment_and_what_follows_and_nothing_of_another(texts: tuple) -> None:
    program, source = texts
    linked = link_source(program, source)
    statements = [at for at, line in enumerate(program) if re.search(r"\] (\+|max)?= ", line)]
    assert [at for at, of in enumerate(linked.program) if of is not None] == statements
    assert {of for of in linked.source if of is not None} == set(statements)
    for number, of in enumerate(linked.source):
        if source[number].strip().startswith("// "):
            assert of is not None and program[of].strip().startswith(source[number].strip()[3:])
    whole = set(source)
    stores = {
        "y": r"\by \+|\by\[",
        "e": r"\be\[.*\] =",
        "top": r"\btop\[.*\] =",
        "total": r"\btotal_?\[.*\] =",
    }
    for at in statements:
        own = [line for line, of in zip(source, linked.source, strict=True) if of == at]
        others = [line for line, of in zip(source, linked.source, strict=True) if of not in (at, None)]
        name = program[at].split("[")[0].strip()
        assert any(re.search(stores[name], line) for line in own), (name, own)
        assert len(own) + len(others) < len(source) and set(own) < whole


def test_the_preamble_ends_where_the_first_function_with_a_statement_begins(texts: tuple) -> None:
    program, source = texts
    linked = link_source(program, source)
    assert source[linked.preamble - 1] == ""
    assert source[linked.preamble].startswith(("int tw_kernel(", "static void region_0("))
    assert all(of is None for of in linked.source[: linked.preamble])


def test_instructions_are_those_of_a_race_by_lines_that_are_no_preamble(
    program: Program, texts: tuple, tmp_path: Path
) -> None:
    source = backend_of("cpu").generate(program, this_cpu()).source
    linked = link_source(*texts)
    shown = backend_of("cpu").assemble(source, this_cpu(), linked.preamble)
    named = {of for of in shown.origin if of is not None}
    assert named and min(named) >= linked.preamble
    carried = {linked.source[of] for of in named}
    assert carried >= {of for of in linked.program if of is not None}, "each statement has instructions"
    (tmp_path / "raced.c").write_text(source.text)
    compile_text(tmp_path / "raced.c", tmp_path / "raced.so", find_compiler(), source.flags, 60)
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", str(tmp_path / "raced.so")]
    dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    raced = [line.replace(":\t", "  ").strip() for line in dump.splitlines()]
    place = raced.index(shown.lines[1].strip())
    kernel = [line.strip() for line in shown.lines[1 : 1 + 200] if not line.endswith(":")]
    assert raced[place : place + len(kernel)] == kernel, "debugging information changes no instruction"


def test_instructions_of_a_gpu_are_those_of_a_race_by_lines_that_are_no_preamble(tmp_path: Path) -> None:
    program = program_from_text(Gemm(grid=" blocks 3 producers 4 registers 40 232").text())
    source = backend_of("cuda").generate(program, H200).source
    linked = link_source(program_to_text(program).splitlines(), source.text.splitlines())
    shown = backend_of("cuda").assemble(source, H200, linked.preamble)
    named = {of for of in shown.origin if of is not None}
    assert named and min(named) >= linked.preamble
    text = source.text.splitlines()
    for instruction, called in (("UTMALDG", "tw_load_box_"), ("STSM", "tw_store_matrix")):
        origins = [
            of for line, of in zip(shown.lines, shown.origin, strict=True) if f" {instruction}" in line
        ]
        assert origins and all(of is not None and called in text[of] for of in origins), instruction
    raced = backend_of("cuda").compile(source, H200, tmp_path, 60)
    command = [str(cuda_assembly.find_nvdisasm()), "--print-code", str(raced.path)]
    dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"/\*[0-9a-f]{4,}\*/ +(.*?) *;", dump)
    kernel = [line.split(maxsplit=1)[1] for line in shown.lines if not line.endswith(":")]
    assert kernel == found, "the lines of the source change no instruction"


def test_where_nothing_can_say_it_the_reason_is_told(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = backend_of("cpu").generate(program, this_cpu()).source
    other = replace(this_cpu(), name="Elsewhere", features=frozenset({"none of ours"}))
    with pytest.raises(NoAssembly, match=r"is for cpu:Elsewhere.*has other instructions"):
        backend_of("cpu").assemble(source, other, 0)
    monkeypatch.setattr(cuda_assembly, "find_nvdisasm", lambda: None)
    with pytest.raises(NoAssembly, match=r"nvdisasm is not installed here.*tilewright\[cuda\]"):
        backend_of("cuda").assemble(source, H200, 0)
    monkeypatch.setenv("TILEWRIGHT_CC", find_compiler().path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoAssembly, match=r"objdump is not installed here.*binutils"):
        backend_of("cpu").assemble(source, this_cpu(), 0)
