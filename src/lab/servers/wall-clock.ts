/** Moves the wall clock of one process, live: a small library preloaded into it, compiled here on first use. */
import { execFile } from "node:child_process";
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeScratch, removeScratch } from "./scratch.ts";
import { findProgram } from "./programs.ts";

const run = promisify(execFile);

/**
 * Shifts CLOCK_REALTIME by the nanoseconds in a mapped file, and nothing else: CLOCK_MONOTONIC stays true. It asks the
 * kernel directly and never allocates, because allocators read the clock while they start.
 */
const SHIM = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift_ns;

__attribute__((constructor)) static void map_shift(void) {
  const char *file = getenv("HOLDFAST_WALLSKEW");
  int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) shift_ns = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, clock, at);
  if (failed || !shift_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
  int64_t ns = at->tv_sec * 1000000000LL + at->tv_nsec + *shift_ns;
  at->tv_sec = ns / 1000000000LL;
  at->tv_nsec = ns % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) { at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; }
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`;

export interface WallClock {
  /** Start the process with this environment: `startRedis({ env: wallClock.env })`. */
  readonly env: Readonly<Record<string, string>>;
  /** Moves the wall clock by so much more, forward or back. Takes effect at its next reading. */
  jump(ms: number): void;
  /** Removes the file and the library. The process keeps its last offset. */
  stop(): void;
}

/** Compiles the library (Linux with gcc only) and makes an offset of 0 for one process or several. */
export async function makeWallClock(): Promise<WallClock> {
  const gcc = await findProgram("gcc");
  const place = makeScratch({ open: true });
  const [source, library, file] = [join(place, "wall-clock.c"), join(place, "wall-clock.so"), join(place, "shift")];
  writeFileSync(source, SHIM);
  await run(gcc, ["-O2", "-shared", "-fPIC", "-o", library, source]);
  writeFileSync(file, Buffer.alloc(8));
  let shiftMs = 0;
  return {
    env: { LD_PRELOAD: library, HOLDFAST_WALLSKEW: file },
    jump: (ms) => {
      shiftMs += ms;
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(Math.round(shiftMs)) * 1_000_000n);
      // In place: a new file would not be the mapped one.
      const fd = openSync(file, "r+");
      writeSync(fd, bytes, 0, 8, 0);
      closeSync(fd);
    },
    stop: () => removeScratch(place),
  };
}
