import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * The Java side of the interop tests: threads that enter sections under Curator's locks.
 *
 * <p>Arguments: servers, recipe (mutex, readwrite, semaphore, steps), path, threads, sections per thread, shared file or
 * folder. Prints "ready", waits for a line, works, and prints what it saw.
 */
public final class CuratorDriver {
  private static final AtomicInteger violations = new AtomicInteger();
  private static final AtomicInteger most = new AtomicInteger();
  /** How often a holder of the other side was inside too. */
  private static final AtomicInteger together = new AtomicInteger();

  private interface Section {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    String recipe = args[1];
    String path = args[2];
    int threads = Integer.parseInt(args[3]);
    int sections = Integer.parseInt(args[4]);
    Path shared = Path.of(args[5]);
    try (CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 20_000, 10_000, new ExponentialBackoffRetry(100, 5))) {
      client.start();
      client.blockUntilConnected();
      System.out.println("ready");
      System.in.read();
      if (recipe.equals("steps")) {
        steps(new InterProcessSemaphoreV2(client, path, 2));
        return;
      }
      List<Thread> running = new ArrayList<>();
      for (int thread = 0; thread < threads; thread++) {
        Section section = section(client, recipe, path, shared, thread);
        running.add(new Thread(() -> repeat(section, sections)));
      }
      for (Thread thread : running) thread.start();
      for (Thread thread : running) thread.join();
    }
    System.out.println("violations " + violations.get() + " most " + most.get() + " together " + together.get());
  }

  /** Fills the semaphore, empties it, and tries to enter it once more; each step when asked. */
  private static void steps(InterProcessSemaphoreV2 semaphore) throws Exception {
    Collection<Lease> leases = semaphore.acquire(2);
    System.out.println("holding");
    System.in.read();
    semaphore.returnAll(leases);
    System.out.println("released");
    System.in.read();
    Lease lease = semaphore.acquire(500, TimeUnit.MILLISECONDS);
    System.out.println(lease == null ? "busy" : "entered");
  }

  private static void repeat(Section section, int times) {
    try {
      for (int time = 0; time < times; time++) section.run();
    } catch (Exception error) {
      error.printStackTrace();
      violations.incrementAndGet();
    }
  }

  private static Section section(CuratorFramework client, String recipe, String path, Path shared, int thread) {
    if (recipe.equals("mutex")) {
      InterProcessMutex mutex = new InterProcessMutex(client, path);
      return () -> write(client, mutex, shared);
    }
    if (recipe.equals("readwrite")) {
      InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
      // One thread reads, and sees nothing change; the others write.
      return thread == 0 ? () -> read(lock.readLock(), shared) : () -> write(client, lock.writeLock(), shared);
    }
    InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, 2);
    // One thread stays at its first visit until it has met a holder of the other side.
    AtomicBoolean meets = new AtomicBoolean(thread == 0);
    return () -> count(semaphore, shared, meets.getAndSet(false));
  }

  /** Adds one to the counter that nothing else protects, and checks that the fence is greater than the last. */
  private static void write(CuratorFramework client, InterProcessMutex mutex, Path file) throws Exception {
    mutex.acquire();
    try {
      String[] before = Files.readString(file).split(" ");
      Collection<String> nodes = mutex.getParticipantNodes();
      long fence = client.checkExists().forPath(nodes.iterator().next()).getCzxid();
      if (fence <= Long.parseLong(before[1])) violations.incrementAndGet();
      Thread.sleep(1);
      Files.writeString(file, (Integer.parseInt(before[0]) + 1) + " " + fence);
    } finally {
      mutex.release();
    }
  }

  private static void read(InterProcessMutex mutex, Path file) throws Exception {
    mutex.acquire();
    try {
      String before = Files.readString(file);
      Thread.sleep(2);
      if (!before.equals(Files.readString(file))) violations.incrementAndGet();
    } finally {
      mutex.release();
    }
  }

  /**
   * Leaves a file in the folder while inside, and counts those that are there. The last one that comes in sees all others: so
   * it looks right after it came in, not only before it goes.
   */
  private static void count(InterProcessSemaphoreV2 semaphore, Path folder, boolean meets)
      throws Exception {
    Lease lease = semaphore.acquire();
    try {
      Path inside = Files.createTempFile(folder, "java", "");
      meetsOther(folder);
      do Thread.sleep(2);
      while (!meetsOther(folder) && meets);
      Files.delete(inside);
    } finally {
      semaphore.returnLease(lease);
    }
  }

  /** Whether a holder of the other side is inside too. */
  private static boolean meetsOther(Path folder) {
    String[] inside = folder.toFile().list();
    most.accumulateAndGet(inside.length, Math::max);
    boolean meets = Arrays.stream(inside).anyMatch(name -> name.startsWith("node"));
    if (meets) together.incrementAndGet();
    return meets;
  }
}
