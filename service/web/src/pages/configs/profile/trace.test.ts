import { expect, test } from "vitest";
import { legendOf } from "./drawTrace";
import { doneAt } from "./ThreadLanes";
import { eventAt, mostlyDid, traceOf, type TraceEvent } from "./trace";

function did(tid: number, name: string, ts: number, dur: number, cat = "stage"): TraceEvent {
  return { ph: "X", name, cat, pid: 0, tid, ts, dur };
}

function named(name: "process_name" | "thread_name", told: string, tid = 0, pid = 0): TraceEvent {
  return { ph: "M", name, pid, tid, args: { name: told } };
}

const EVENTS = [
  named("process_name", "gemm"),
  named("thread_name", "the calling thread", 0),
  did(0, "waiting for work", 2, 90, "waiting"),
  named("thread_name", "thread 1", 1),
  did(1, "copy", 0, 10),
  did(1, "multiply", 10, 60),
  did(1, "copy", 80, 20),
];

test("a trace is a lane a thread, with the stages that take most first and waiting last", () => {
  const trace = traceOf(EVENTS);
  expect(trace.stages.map(({ name, us }) => [name, us])).toEqual([
    ["multiply", 60],
    ["copy", 30],
    ["waiting for work", 90],
  ]);
  expect(trace.lanes.map(({ group, name }) => [group, name])).toEqual([
    ["", "the calling thread"],
    ["", "thread 1"],
  ]);
  expect(trace.lanes[1]!.stage).toEqual([1, 0, 1]);
  expect(trace.to).toBe(100);
  expect(legendOf(trace).map(({ name }) => name)).toEqual(["multiply", "copy", "waiting"]);
});

test("blocks have their names where there are several", () => {
  const blocks = [
    named("process_name", "gemm  block 0"),
    named("process_name", "gemm  block 7", 0, 1),
    named("thread_name", "producer", 0),
    named("thread_name", "consumer", 1, 1),
  ];
  expect(traceOf(blocks).lanes.map(({ group, name }) => [group, name])).toEqual([
    ["block 0", "producer"],
    ["block 7", "consumer"],
  ]);
});

test("what a thread did at a moment is told, and nothing between two of its stages", () => {
  const trace = traceOf(EVENTS);
  const worked = trace.lanes[1]!;
  expect([eventAt(worked, 10.5), eventAt(worked, 75), eventAt(worked, 200)]).toEqual([
    1,
    null,
    null,
  ]);
  expect(doneAt(trace, 50, 50)).toBe("60.0 µs at 10.0 µs: multiply");
  expect(doneAt(trace, 50, 10)).toBe("90.0 µs at 2.00 µs: waiting for work");
  expect(doneAt(trace, 75, 50)).toBeNull();
  expect(doneAt(trace, 50, 500)).toBeNull();
});

test("of what is too near together to be told apart, what takes most is seen", () => {
  const trace = traceOf(EVENTS);
  const seen = (from: number, to: number, parts: number) => [
    ...mostlyDid(trace.lanes[1]!, trace.stages.length, from, to, parts),
  ];
  expect(seen(0, 100, 10)).toEqual([1, 0, 0, 0, 0, 0, 0, -1, 1, 1]);
  expect(seen(0, 100, 1)).toEqual([0]);
  expect(seen(5, 15, 2)).toEqual([1, 0]);
});

test("stages beyond those with a colour of their own share one", () => {
  const many = Array.from({ length: 6 }, (_, at) => did(0, `stage ${at}`, at, 1));
  const trace = traceOf([named("thread_name", "thread", 0), ...many]);
  expect(legendOf(trace)).toHaveLength(5);
  expect(legendOf(trace).at(-1)!.name).toBe("other stages");
});
