"""The Python side of the interop tests: threads that enter sections under kazoo's locks.

Arguments: servers, recipe (lock, write), path, threads, sections per thread, shared file, extra pattern or "-".
Prints "ready", waits for a line, works, and prints what it saw.
"""
import sys
import threading
import time

from kazoo.client import KazooClient

SERVERS, RECIPE, PATH, THREADS, SECTIONS, FILE, PATTERN = sys.argv[1:8]
violations = []


def read_file():
    with open(FILE) as file:
        return file.read()


def write_section(client, lock):
    with lock:
        count, last = read_file().split(" ")
        fence = client.exists(PATH + "/" + lock.node).czxid
        if fence <= int(last):
            violations.append("fence %d after %s" % (fence, last))
        time.sleep(0.001)
        with open(FILE, "w") as file:
            file.write("%d %d" % (int(count) + 1, fence))


def work(client):
    try:
        patterns = [] if PATTERN == "-" else [PATTERN]
        for _ in range(int(SECTIONS)):
            if RECIPE == "lock":
                write_section(client, client.Lock(PATH, "python", extra_lock_patterns=patterns))
            else:
                # No ReadLock: kazoo 2.8's waits for writers that came after it, and they for it, without end.
                write_section(client, client.WriteLock(PATH, "python"))
    except Exception as error:
        violations.append(repr(error))


clients = [KazooClient(hosts=SERVERS, timeout=20) for _ in range(int(THREADS))]
for client in clients:
    client.start()
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work, args=(client,)) for client in clients]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for client in clients:
    client.stop()
print("violations %d most 0 %s" % (len(violations), violations[:3]), flush=True)
