import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** ShedLock's own provider with the clock of the database. It cannot wait, so it is asked again. Argument: the port. */
final class Driver {
  private static final Duration AT_MOST = Duration.ofSeconds(30);

  public static void main(String[] args) throws Exception {
    PGSimpleDataSource postgres = new PGSimpleDataSource();
    postgres.setURL("jdbc:postgresql://127.0.0.1:" + args[0] + "/postgres");
    postgres.setUser("postgres");
    postgres.setPassword(System.getenv("HOLDFAST_LAB_PASSWORD"));
    SingleConnectionDataSource one = new SingleConnectionDataSource(postgres.getConnection(), true);
    LockProvider provider =
        new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(new JdbcTemplate(one)).usingDbTime()
                // Its default is the name of the host, so that all processes of a host are one.
                .withLockedByValue("java-" + ProcessHandle.current().pid()).build());
    new Orders(
            name -> {
              for (;;) {
                Optional<SimpleLock> lock =
                    provider.lock(new LockConfiguration(Instant.now(), name, AT_MOST, Duration.ZERO));
                if (lock.isPresent()) {
                  return () -> {
                    lock.get().unlock();
                    return null;
                  };
                }
                Thread.sleep(1);
              }
            })
        .serve();
  }
}
