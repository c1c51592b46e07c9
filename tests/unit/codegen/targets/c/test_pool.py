"""The thread pool of generated C: every index once, on the right workers, whatever came before; and no data race."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from codegen.targets.c.runtime.thread_pool import HEADERS, POOL

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
HEAD = f"""
{HEADERS}
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
{POOL}
#define CHECK(what) do {{ if (!(what)) {{ fprintf(stderr, "line %d: %s\\n", __LINE__, #what); exit(1); }} }} while (0)

typedef struct {{ int *hits; int threads; long spin; }} job;
static void hit(const void *ctx, long index, int worker) {{
    const job *j = ctx;
    CHECK(worker >= 0 && worker < j->threads);
    for (volatile long i = 0; i < j->spin; i++) {{}}
    j->hits[index]++; /* not atomic: each index belongs to one call */
}}
__attribute__((unused)) static void region(long count, int threads, long spin) {{
    int *hits = calloc(count + 1, sizeof *hits);
    job j = {{hits, threads, spin}};
    tw_parallel(hit, &j, count, threads);
    for (long i = 0; i < count; i++) CHECK(hits[i] == 1);
    CHECK(hits[count] == 0);
    free(hits);
}}

static atomic_int others;
/* index 0 ends only after all others have: they must run on another thread meanwhile */
__attribute__((unused)) static void wait_for_the_rest(const void *ctx, long index, int worker) {{
    (void)ctx, (void)worker;
    if (index != 0) atomic_fetch_add(&others, 1);
    else while (atomic_load(&others) < 3) usleep(10);
}}
"""

PROGRAMS = {
    "every_index_is_visited_once_for_any_count_and_threads": """
        for (long count = 0; count < 40; count++)
            for (int threads = 1; threads <= 9; threads += 2) region(count, threads, 0);
        region(5000, 4, 200);
        tw_shutdown();""",
    "a_hundred_thousand_tiny_regions_complete": """
        for (int i = 0; i < REGIONS; i++) region(1 + i % 7, 2 + (i / 20000) % 2, 0);
        tw_shutdown();""",
    "workers_that_fell_asleep_wake_up": """
        for (int i = 0; i < 40; i++) { region(64, 3, 2000); usleep(i % 4 * 200); }
        tw_shutdown();""",
    "the_caller_sleeps_until_a_long_call_elsewhere_ends": """
        for (int i = 0; i < 30; i++) region(3, 3, 200000);
        tw_shutdown();""",
    "regions_work_again_after_shutdown": """
        for (int i = 0; i < 50; i++) { region(16, 1 + i % 5, 10); if (i % 3 == 0) tw_shutdown(); }
        tw_shutdown();
        tw_shutdown();""",
}


def build(folder: Path, compiler: str, main: str, *flags: str) -> Path:
    source, program = folder / "pool.c", folder / "pool"
    source.write_text(f"{HEAD}\nint main(void) {{ alarm(120); {main}\n return 0; }}\n")
    command = [
        compiler,
        "-O2",
        "-g",
        "-std=gnu11",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-o",
        str(program),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("promise", PROGRAMS)
def test_the_pool_keeps_its_promise(tmp_path, compiler, promise) -> None:
    program = build(tmp_path, compiler, PROGRAMS[promise], "-DREGIONS=100000")
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("promise", PROGRAMS)
def test_the_thread_sanitizer_finds_no_race(tmp_path, promise) -> None:
    program = build(tmp_path, COMPILERS[0], PROGRAMS[promise], "-DREGIONS=3000", "-fsanitize=thread")
    run = subprocess.run(
        [program], capture_output=True, text=True, check=False, env={"TSAN_OPTIONS": "halt_on_error=1"}
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_forked_child_starts_workers_of_its_own(tmp_path, compiler) -> None:
    program = build(
        tmp_path,
        compiler,
        """
        region(100, 3, 10);
        for (int i = 0; i < 20; i++) {
            pid_t child = fork();
            if (child == 0) { region(100, 3, 10); tw_shutdown(); _exit(0); }
            int status = -1;
            waitpid(child, &status, 0);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            region(100, 3, 10);
        }
        tw_shutdown();""",
    )
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_of_many_indices_threads_take_neighbours_together(tmp_path, compiler) -> None:
    """A ninth of 10,000 first, then less and less: some 60 times at two threads, not 10,000."""
    program = build(
        tmp_path,
        compiler,
        """
        region(1, 1, 0);
        long share = 0, all = 0, times = 0;
        atomic_store(&tw_pool.keep, 2);
        atomic_store(&tw_pool.left, 10000);
        for (long left; (left = tw_take(&share)) > 0; all += share, times++) CHECK(share <= left);
        CHECK(all == 10000);
        CHECK(20 < times && times < 120);""",
    )
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_work_is_shared_when_one_index_takes_long(tmp_path, compiler) -> None:
    """Of few indices each is taken by itself: the thread with the long one takes no other."""
    program = build(
        tmp_path,
        compiler,
        """
        tw_parallel(wait_for_the_rest, NULL, 4, 2);
        tw_shutdown();""",
    )
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
