// Runs Kafka's command-line tools, one after another in one Java: starting one for each would take most of
// the time of the tests. Each line in is {"class", "args", "stdin"}, each line out {"exit", "out", "err"}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

public final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Stdout or stderr. Libraries keep the stream they found first, so it stays and its target changes. */
    private static final class Captured extends OutputStream {
        private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int b) {
            bytes.write(b);
        }

        @Override
        public synchronized void write(byte[] from, int offset, int length) {
            bytes.write(from, offset, length);
        }

        synchronized String take() {
            String text = bytes.toString(StandardCharsets.UTF_8);
            bytes = new ByteArrayOutputStream();
            return text;
        }
    }

    /** Ends a tool in place of the process; an Error, which tools do not catch by habit. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super("", null, false, false);
        }

        @Override
        public String toString() {
            return ""; // some tools print what they catch on their way out
        }
    }

    private static final AtomicReference<Integer> EXIT = new AtomicReference<>();
    private static final List<Runnable> AT_END = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Captured out = new Captured();
        Captured err = new Captured();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.Procedure end = (status, message) -> {
            EXIT.compareAndSet(null, status);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> AT_END.add(hook));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int exit = run(JSON.readTree(line));
            var answer = JSON.createObjectNode().put("exit", exit);
            answers.println(answer.put("out", out.take()).put("err", err.take()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(JsonNode command) {
        List<String> args = new ArrayList<>();
        command.get("args").forEach(arg -> args.add(arg.asText()));
        System.setIn(new ByteArrayInputStream(command.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        EXIT.set(null);
        try {
            Class.forName(command.get("class").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                e.getCause().printStackTrace();
                EXIT.compareAndSet(null, 1);
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            EXIT.set(127);
        }
        AT_END.forEach(Runnable::run);
        AT_END.clear();
        return EXIT.get() == null ? 0 : EXIT.get();
    }
}
