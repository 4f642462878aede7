import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** One process of Holdfast: see bridge.mjs. */
final class Bridge implements AutoCloseable {
  private final Process process;
  private final PrintStream out;
  private final AtomicInteger last = new AtomicInteger();
  private final Map<String, CompletableFuture<String[]>> waiting = new ConcurrentHashMap<>();

  /** `url`: null for that of HOLDFAST_URL. */
  Bridge(String url) {
    try {
      List<String> command = new ArrayList<>(List.of(System.getProperty("holdfast.node"), System.getProperty("holdfast.bridge")));
      if (url != null) command.add(url);
      process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      out = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
      BufferedReader in = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
      if (!"ready".equals(in.readLine())) throw new IllegalStateException("the process of Holdfast did not start");
      Thread reader = new Thread(() -> read(in));
      reader.setDaemon(true);
      reader.start();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The words of the answer. */
  String[] ask(Object... words) {
    String number = String.valueOf(last.incrementAndGet());
    CompletableFuture<String[]> answer = new CompletableFuture<>();
    waiting.put(number, answer);
    StringBuilder line = new StringBuilder(number);
    for (Object word : words) line.append('\t').append(encoded(String.valueOf(word)));
    synchronized (out) {
      out.print(line.append('\n'));
      out.flush();
    }
    String[] found = answer.join();
    if (found[0].equals("error")) throw new IllegalStateException(URLDecoder.decode(found[1], StandardCharsets.UTF_8));
    return found;
  }

  private static String encoded(String word) {
    return URLEncoder.encode(word, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private void read(BufferedReader in) {
    try {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        String[] words = line.split("\t", 2);
        CompletableFuture<String[]> answer = waiting.remove(words[0]);
        if (answer != null) answer.complete(words[1].split("\t"));
      }
    } catch (IOException closed) {
      // As at its end.
    }
    for (CompletableFuture<String[]> answer : waiting.values()) {
      answer.completeExceptionally(new IllegalStateException("the process of Holdfast has ended"));
    }
  }

  @Override
  public void close() {
    out.close();
    try {
      if (!process.waitFor(10, java.util.concurrent.TimeUnit.SECONDS)) process.destroyForcibly();
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
