import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex, the recipe whose layout Holdfast shares. Argument: the port. */
final class Driver {
  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient("127.0.0.1:" + args[0], 30_000, 15_000, new ExponentialBackoffRetry(100, 5));
    client.start();
    client.blockUntilConnected();
    new Orders(
            name -> {
              InterProcessMutex lock = new InterProcessMutex(client, "/curator/" + name);
              lock.acquire();
              return () -> {
                lock.release();
                return null;
              };
            })
        .serve();
  }
}
