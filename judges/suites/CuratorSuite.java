import java.util.IdentityHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.TestInterProcessMutexBase;
import org.junit.jupiter.api.AfterEach;

/** Curator's own tests of its mutex, on locks of Holdfast: each client of Curator has a process of Holdfast beside it. */
public class CuratorSuite extends TestInterProcessMutexBase {
  private static final AtomicInteger LOCKS = new AtomicInteger();
  private final Map<CuratorFramework, Bridge> bridges = new IdentityHashMap<>();

  @Override
  protected synchronized InterProcessLock makeLock(CuratorFramework client) {
    return new HoldfastLock(bridges.computeIfAbsent(client, CuratorSuite::open), LOCK_BASE_PATH + "/holdfast");
  }

  @AfterEach
  public synchronized void closeBridges() {
    bridges.values().forEach(Bridge::close);
    bridges.clear();
  }

  private static Bridge open(CuratorFramework client) {
    String namespace = client.getNamespace();
    String chroot = namespace == null || namespace.isEmpty() ? "" : "/" + namespace;
    return new Bridge("zk://" + client.getZookeeperClient().getCurrentConnectionString() + chroot + "?names=paths&session=10s");
  }

  private static final class HoldfastLock implements InterProcessLock {
    private final Bridge bridge;
    private final String name;
    private final int number = LOCKS.incrementAndGet();

    HoldfastLock(Bridge bridge, String name) {
      this.bridge = bridge;
      this.name = name;
    }

    private String who() {
      return number + "/" + Thread.currentThread().getId();
    }

    @Override
    public void acquire() {
      bridge.ask("enter", who(), name, -1);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) {
      return bridge.ask("enter", who(), name, unit.toMillis(time))[0].equals("held");
    }

    @Override
    public void release() {
      String said = bridge.ask("leave", who())[0];
      if (!said.equals("released")) throw new IllegalMonitorStateException("release: " + said);
    }

    @Override
    public boolean isAcquiredInThisProcess() {
      return bridge.ask("within", number)[0].equals("true");
    }
  }
}
