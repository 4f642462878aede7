import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;

/** A process of Redisson that takes turns on one lock: see ../take-turns.mjs. Argument: the order, as JSON. */
final class Worker {
  private final String order;
  private final RedissonClient client;
  private final boolean isFenced;

  public static void main(String[] args) throws Exception {
    new Worker(args[0]).work();
    // Its threads would go on for a while.
    System.exit(0);
  }

  private Worker(String order) throws Exception {
    this.order = order;
    this.isFenced = kind().equals("fenced");
    this.client = Redisson.create(config());
  }

  /** The order is flat, and Redisson brings no reader of JSON. */
  private String word(String name) {
    Matcher found = Pattern.compile("\"" + name + "\":\\[?\"?([^\"\\],}]*)").matcher(order);
    if (!found.find()) throw new IllegalArgumentException("no " + name);
    return found.group(1);
  }

  private double number(String name) {
    return Double.parseDouble(word(name));
  }

  private String kind() {
    return word("kind");
  }

  /** With a watchdog of our ttl, so that the lock of one that was killed ends as soon as one of ours. */
  private Config config() throws Exception {
    Config config = new Config();
    config.setLockWatchdogTimeout((long) number("ttlMs"));
    config.setThreads(2).setNettyThreads(2);
    String password = word("password");
    String topology = word("topology");
    if (topology.equals("cluster")) {
      ClusterServersConfig cluster = config.useClusterServers();
      for (String address : word("addresses").split(" ")) cluster.addNodeAddress(address);
      cluster.setPassword(password);
    } else if (topology.equals("sentinel")) {
      SentinelServersConfig sentinel = config.useSentinelServers().setMasterName(word("service"));
      for (String address : word("addresses").split(" ")) sentinel.addSentinelAddress(address);
      // Not in all versions.
      SentinelServersConfig.class.getMethod("setSentinelPassword", String.class).invoke(sentinel, password);
      sentinel.setPassword(password);
    } else {
      config.useSingleServer().setAddress(word("addresses")).setConnectionMinimumIdleSize(2).setPassword(password);
    }
    return config;
  }

  private void work() throws Exception {
    while (!isOver) {
      say("want", "");
      boolean reads = kind().equals("read-write") && Math.random() < number("readers");
      RLock lock = lock(reads);
      String rest = reads ? " shared" : " exclusive";
      if (isFenced) rest += " " + lock.getClass().getMethod("lockAndGetToken").invoke(lock);
      else lock.lock();
      say("in", rest);
      Thread.sleep(sectionTime());
      boolean held = lock.isHeldByCurrentThread();
      say("out", "");
      try {
        lock.unlock();
      } catch (IllegalMonitorStateException lost) {
        held = false;
      }
      if (!held) say("lost", "");
      Thread.sleep((long) (number("thinkMs") * (0.5 + Math.random())));
    }
  }

  private RLock lock(boolean reads) throws Exception {
    String name = word("name");
    // Not in all versions.
    if (isFenced) return (RLock) client.getClass().getMethod("getFencedLock", String.class).invoke(client, name);
    if (kind().equals("lock")) return client.getLock(name);
    RReadWriteLock both = client.getReadWriteLock(name);
    return reads ? both.readLock() : both.writeLock();
  }

  /** One in so many lasts longer than a ttl, so that it lives by the watchdog. */
  private long sectionTime() {
    if (Math.random() * number("longOneIn") < 1) return (long) (number("ttlMs") * 1.5);
    return (long) (number("sectionMs") * (0.5 + Math.random()));
  }

  private static volatile boolean isOver;

  static {
    // The judge closes our input when it is over.
    Thread reader =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (java.io.IOException closed) {
                // It is over, too.
              }
              isOver = true;
            });
    reader.setDaemon(true);
    reader.start();
  }

  /** The same clock as that of Node: the machine's monotonic one. */
  private static void say(String word, String rest) {
    System.out.println(word + " " + System.nanoTime() + rest);
    System.out.flush();
  }
}
