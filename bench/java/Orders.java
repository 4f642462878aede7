import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Takes the harness's orders (lines of JSON on stdin) for a lock library of Java: one thread per loop. */
final class Orders {
  /** What a library must be able to do: take a lock, and give back what lets go of it. */
  interface Locking {
    Callable<Void> acquire(String name) throws Exception;
  }

  private static final int FIELDS = 5;
  private final Locking locking;
  private final ExecutorService threads = Executors.newCachedThreadPool();

  Orders(Locking locking) {
    this.locking = locking;
  }

  void serve() throws Exception {
    answer("");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        boolean hot = "sections".equals(text(line, "do"));
        answer(slice(hot, text(line, "name"), (int) number(line, "loops"), number(line, "seconds"), text(line, "file")));
      } catch (Exception error) {
        answer("\"error\":\"" + String.valueOf(error).replaceAll("[\"\\\\\\n]", " ") + "\"");
      }
    }
    System.exit(0);
  }

  private String slice(boolean hot, String name, int loops, double seconds, String file) throws Exception {
    long startNs = System.nanoTime();
    long untilNs = startNs + (long) (seconds * 1e9);
    long cpuNs = cpuNs();
    List<Future<double[]>> running = new ArrayList<>();
    for (int loop = 0; loop < loops; loop++) {
      int index = loop;
      running.add(threads.submit(() -> hot ? sections(name, index, untilNs) : cycles(name + "-" + index, untilNs)));
    }
    List<double[]> logs = new ArrayList<>();
    long cycles = 0;
    for (Future<double[]> one : running) {
      double[] log = one.get();
      logs.add(log);
      cycles += hot ? log.length / FIELDS : (long) log[0];
    }
    double tookSeconds = (System.nanoTime() - startNs) / 1e9;
    double cpuUs = (cpuNs() - cpuNs) / 1e3;
    if (hot) write(logs, Path.of(file));
    return String.format(Locale.ROOT, "\"cycles\":%d,\"cpuUs\":%.1f,\"seconds\":%.6f,\"untilMs\":%.6f", cycles, cpuUs, tookSeconds, untilNs / 1e6);
  }

  private double[] cycles(String name, long untilNs) throws Exception {
    long count = 0;
    while (System.nanoTime() < untilNs) {
      locking.acquire(name).call();
      count++;
    }
    return new double[] {count};
  }

  private double[] sections(String name, int loop, long untilNs) throws Exception {
    double[] log = new double[FIELDS * 1024];
    int used = 0;
    for (long askedNs = System.nanoTime(); askedNs < untilNs; askedNs = System.nanoTime()) {
      Callable<Void> release = locking.acquire(name);
      long enteredNs = System.nanoTime();
      Thread.yield();
      if (used == log.length) log = java.util.Arrays.copyOf(log, used * 2);
      log[used] = askedNs / 1e6;
      log[used + 1] = enteredNs / 1e6;
      log[used + 2] = System.nanoTime() / 1e6;
      log[used + 3] = loop;
      used += FIELDS;
      release.call();
    }
    return java.util.Arrays.copyOf(log, used);
  }

  private static void write(List<double[]> logs, Path file) throws Exception {
    int numbers = logs.stream().mapToInt(log -> log.length).sum();
    ByteBuffer bytes = ByteBuffer.allocate(numbers * 8).order(ByteOrder.LITTLE_ENDIAN);
    for (double[] log : logs) for (double number : log) bytes.putDouble(number);
    Files.write(file, bytes.array());
  }

  private static long cpuNs() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  private static void answer(String fields) {
    System.out.println("{\"answer\":{" + fields + "}}");
    System.out.flush();
  }

  private static String text(String json, String field) {
    Matcher found = Pattern.compile("\"" + field + "\":\"([^\"]*)\"").matcher(json);
    return found.find() ? found.group(1) : null;
  }

  private static double number(String json, String field) {
    Matcher found = Pattern.compile("\"" + field + "\":([0-9.]+)").matcher(json);
    if (!found.find()) throw new IllegalArgumentException("no " + field + " in the order");
    return Double.parseDouble(found.group(1));
  }
}
