import { describe, expect, test } from "vitest";
import { Reader, Writer } from "../../../src/backends/zookeeper/client/codec.ts";
import { FrameSplitter } from "../../../src/backends/zookeeper/client/frames.ts";

const framed = new Writer(8)
  .frame((writer) =>
    writer
      .int(-7)
      .long(2n ** 62n)
      .bool(true)
      .string("é🔒")
      .strings(["a", ""]),
  )
  .frame((writer) => writer.buffer(Buffer.alloc(70_000, 1)))
  .frame(() => undefined)
  .take();

function split(chunks: readonly Buffer[]): Buffer[] {
  const splitter = new FrameSplitter();
  const frames: Buffer[] = [];
  for (const chunk of chunks) splitter.push(chunk, (bytes, start, end) => frames.push(bytes.subarray(start, end)));
  return frames;
}

describe("frames", () => {
  test("read back what was written", () => {
    const [first, second, third] = split([framed]);
    const reader = new Reader(first as Buffer);
    expect([reader.int(), reader.long(), reader.bool(), reader.string(), reader.strings(), reader.left]).toEqual([
      -7,
      2n ** 62n,
      true,
      "é🔒",
      ["a", ""],
      0,
    ]);
    expect(new Reader(second as Buffer).buffer().equals(Buffer.alloc(70_000, 1))).toBe(true);
    expect(third).toHaveLength(0);
  });

  test("come out whole however the stream was cut", () => {
    const whole = split([framed]);
    for (const size of [1, 2, 3, 5, 7, 64, 4093, 65_536]) {
      const chunks = Array.from({ length: Math.ceil(framed.length / size) }, (_, at) =>
        framed.subarray(at * size, (at + 1) * size),
      );
      const frames = split(chunks);
      expect(frames).toHaveLength(whole.length);
      expect(frames.every((frame, at) => frame.equals(whole[at] as Buffer))).toBe(true);
    }
  });

  test("with a length that cannot be are refused", () => {
    expect(() => split([Buffer.from([0xff, 0xff, 0xff, 0xff])])).toThrow(RangeError);
    expect(() => split([Buffer.from([0x7f]), Buffer.from([0xff, 0xff, 0xff])])).toThrow(RangeError);
  });

  test("that end before their contents do are refused, whatever they claim", () => {
    const lying = new Writer().int(1_000_000).take();
    expect(() => new Reader(lying).buffer()).toThrow(RangeError);
    expect(() => new Reader(lying).string()).toThrow(RangeError);
    expect(() => new Reader(lying).strings()).toThrow(RangeError);
    expect(() => new Reader(new Writer().int(-2).take()).string()).toThrow(RangeError);
    expect(() => new Reader(lying).long()).toThrow(RangeError);
    expect(new Reader(new Writer().int(-1).take()).string()).toBe("");
    // What follows in the same buffer belongs to the next frame.
    expect(() => new Reader(new Writer().long(1n).take(), 0, 4).long()).toThrow(RangeError);
  });
});
