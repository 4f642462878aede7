import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/** A process of Curator that takes turns on one lock of ZooKeeper: see ../take-turns.mjs. Argument: the order, as JSON. */
final class Worker {
  private static volatile boolean isOver;
  private static String order;

  public static void main(String[] args) throws Exception {
    order = args[0];
    listenForTheEnd();
    int session = (int) number("ttlMs");
    CuratorFramework client = CuratorFrameworkFactory.newClient(word("hosts"), session, session, new RetryForever(50));
    // Its documentation: whoever is suspended may have lost the lock.
    AtomicInteger doubts = new AtomicInteger();
    client.getConnectionStateListenable().addListener((same, state) -> {
      if (state != ConnectionState.CONNECTED && state != ConnectionState.RECONNECTED) doubts.incrementAndGet();
    });
    client.start();
    while (!isOver) {
      say("want");
      InterProcessMutex mutex = new InterProcessMutex(client, word("path"));
      int before = doubts.get();
      mutex.acquire();
      say("in");
      Thread.sleep((long) (number("sectionMs") * (0.5 + Math.random())));
      say("out");
      boolean held = true;
      try {
        mutex.release();
      } catch (Exception lost) {
        held = false;
      }
      if (!held || doubts.get() != before) say("lost");
      Thread.sleep((long) (number("thinkMs") * (0.5 + Math.random())));
    }
    client.close();
    System.exit(0);
  }

  /** The order is flat, and its texts have no quotes. */
  private static String word(String name) {
    return found("\"" + name + "\":\"([^\"]*)");
  }

  private static double number(String name) {
    return Double.parseDouble(found("\"" + name + "\":([\\d.]+)"));
  }

  private static String found(String pattern) {
    Matcher matcher = Pattern.compile(pattern).matcher(order);
    if (!matcher.find()) throw new IllegalArgumentException("nothing like " + pattern);
    return matcher.group(1);
  }

  /** The judge closes our input when it is over. */
  private static void listenForTheEnd() {
    Thread reader = new Thread(() -> {
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
  private static void say(String word) {
    System.out.println(word + " " + System.nanoTime());
    System.out.flush();
  }
}
