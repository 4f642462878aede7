import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** A process of ShedLock that takes turns on one row: see ../take-turns.mjs. Argument: the order, as JSON. */
final class Worker {
  /** It cannot wait, so it is asked again. */
  private static final int RETRY_MS = 20;

  private static volatile boolean isOver;

  private final String order;

  private Worker(String order) {
    this.order = order;
  }

  public static void main(String[] args) throws Exception {
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
    new Worker(args[0]).work();
    System.exit(0);
  }

  private void work() throws Exception {
    PGSimpleDataSource postgres = new PGSimpleDataSource();
    postgres.setURL("jdbc:postgresql://127.0.0.1:" + word("port") + "/postgres");
    postgres.setUser("postgres");
    postgres.setPassword(System.getenv("HOLDFAST_LAB_PASSWORD"));
    SingleConnectionDataSource one = new SingleConnectionDataSource(postgres.getConnection(), true);
    LockProvider provider =
        new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(new JdbcTemplate(one)).usingDbTime()
                // Its default is the name of the host, so that all processes of a host are one.
                .withLockedByValue("java-" + ProcessHandle.current().pid()).build());
    Duration atMost = Duration.ofMillis((long) number("ttlMs"));
    while (!isOver) {
      say("want");
      long askedNs = System.nanoTime();
      Optional<SimpleLock> lock = Optional.empty();
      while (lock.isEmpty() && !isOver) {
        askedNs = System.nanoTime();
        lock = provider.lock(new LockConfiguration(Instant.now(), word("name"), atMost, Duration.ZERO));
        if (lock.isEmpty()) Thread.sleep((long) (RETRY_MS * (0.5 + Math.random())));
      }
      if (lock.isEmpty()) return;
      say("in");
      Thread.sleep((long) (number("sectionMs") * (0.5 + Math.random())));
      say("out");
      // It does not say so itself: its time may have been over.
      if (System.nanoTime() - askedNs > atMost.toNanos()) say("lost");
      lock.get().unlock();
      Thread.sleep((long) (number("thinkMs") * (0.5 + Math.random())));
    }
  }

  /** The order is flat. */
  private String word(String name) {
    Matcher found = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(order);
    if (!found.find()) throw new IllegalArgumentException("no " + name);
    return found.group(1);
  }

  private double number(String name) {
    return Double.parseDouble(word(name));
  }

  /** The same clock as that of Node: the machine's monotonic one. */
  private static void say(String word) {
    System.out.println(word + " " + System.nanoTime());
    System.out.flush();
  }
}
