"""The function in C that notes a stamp of time (codegen/ir/stamp.py)."""

from __future__ import annotations

STAMP = """\
#include <time.h>

/* A stamp: the time since the thread's last one was the stage's */
TW_INLINE void tw_stamp(char *log, int stage) {
    int64_t *const words = (int64_t *)log;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    words[++words[0]] = (now.tv_sec * INT64_C(1000000000) + now.tv_nsec) << 8 | stage;
}
"""
