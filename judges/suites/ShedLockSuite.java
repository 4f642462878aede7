import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** ShedLock's own tests of a lock provider, with its fuzz test, on locks of Holdfast in the store of HOLDFAST_URL. */
public class ShedLockSuite extends AbstractExtensibleLockProviderIntegrationTest {
  private static Bridge bridge;

  @BeforeAll
  static void open() {
    bridge = new Bridge(null);
  }

  @AfterAll
  static void close() {
    bridge.close();
  }

  @Override
  protected ExtensibleLockProvider getLockProvider() {
    return ShedLockSuite::lock;
  }

  @Override
  protected void assertUnlocked(String name) {
    assertThat(bridge.ask("held", name)[0]).isEqualTo("false");
  }

  @Override
  protected void assertLocked(String name) {
    assertThat(bridge.ask("held", name)[0]).isEqualTo("true");
  }

  private static Optional<SimpleLock> lock(LockConfiguration wish) {
    String[] answer = bridge.ask("take", wish.getName(), wish.getLockAtMostFor().toMillis(), wish.getLockAtLeastFor().toMillis());
    return answer[0].equals("held") ? Optional.of(new HoldfastLock(answer[1])) : Optional.empty();
  }

  /** Used once, as ShedLock wants it: extended or unlocked, it is no longer valid. */
  private static final class HoldfastLock implements SimpleLock {
    private final String id;
    private boolean valid = true;

    HoldfastLock(String id) {
      this.id = id;
    }

    @Override
    public void unlock() {
      use();
      bridge.ask("give", id);
    }

    @Override
    public Optional<SimpleLock> extend(Duration atMost, Duration atLeast) {
      use();
      return bridge.ask("extend", id, atMost.toMillis())[0].equals("held") ? Optional.of(new HoldfastLock(id)) : Optional.empty();
    }

    private void use() {
      if (!valid) throw new IllegalStateException("Lock is not valid, it has already been unlocked or extended");
      valid = false;
    }
  }
}
