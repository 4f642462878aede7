import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock with its defaults (watchdog of 30 s), one client per process. Argument: the port. */
final class Driver {
  public static void main(String[] args) throws Exception {
    Config config = new Config();
    config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]).setPassword(System.getenv("HOLDFAST_LAB_PASSWORD"));
    RedissonClient client = Redisson.create(config);
    RLock warm = client.getLock("warm");
    warm.lock();
    warm.unlock();
    new Orders(
            name -> {
              RLock lock = client.getLock(name);
              lock.lock();
              return () -> {
                lock.unlock();
                return null;
              };
            })
        .serve();
  }
}
