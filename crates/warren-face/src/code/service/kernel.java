// Runs cells of Java with the JDK's own JShell, in this process. An order is a line: `run NUMBER CODE [NAME VALUE]...` or `interrupt
// NUMBER`; a report is a line `NUMBER result TEXT`, `NUMBER error NAME VALUE TRACEBACK` or `NUMBER none`. Texts are in base64, with `-`
// for an empty one. What cells print goes to standard output and standard error as it is.
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

class WarrenKernel {
    static final List<String> IMPORTS = List.of(
        "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
        "java.util.function.*", "java.util.regex.*", "java.util.stream.*");

    final JShell shell = JShell.builder().executionEngine("local").build();
    final BlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
    final OutputStream reports;
    // The cell that runs, and whether it is to end.
    volatile String running;
    volatile boolean unwanted;

    WarrenKernel(OutputStream reports) {
        this.reports = reports;
        for (String name : IMPORTS) {
            shell.eval("import " + name + ";");
        }
        // Other languages find a sandbox's variables in the environment, and Java, which cannot change that, in its properties.
        System.getenv().forEach((name, value) -> System.getProperties().putIfAbsent(name, value));
    }

    public static void main(String[] arguments) throws Exception {
        WarrenKernel kernel = new WarrenKernel(new FileOutputStream("/proc/self/fd/" + arguments[1]));
        Thread reader = new Thread(() -> kernel.read("/proc/self/fd/" + arguments[0]));
        reader.setDaemon(true);
        reader.start();
        kernel.report("ready");
        while (true) {
            kernel.run(kernel.orders.take());
        }
    }

    void read(String place) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(new FileInputStream(place), StandardCharsets.US_ASCII))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("run")) {
                    orders.add(words);
                } else if (words[1].equals(running)) {
                    unwanted = true;
                    shell.stop();
                }
            }
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // Nobody is there any more.
        Runtime.getRuntime().halt(0);
    }

    void run(String[] order) throws Exception {
        Map<String, String> before = new HashMap<>();
        for (int at = 3; at + 1 < order.length; at += 2) {
            String name = decoded(order[at]);
            before.put(name, System.getProperty(name));
            System.setProperty(name, decoded(order[at + 1]));
        }
        unwanted = false;
        running = order[1];
        String said;
        try {
            said = evaluated(decoded(order[2]));
        } catch (RuntimeException | Error error) {
            said = unwanted ? interrupted() : failed(error.getClass().getName(), String.valueOf(error.getMessage()), "");
        }
        running = null;
        before.forEach((name, value) -> {
            if (value == null) {
                System.clearProperty(name);
            } else {
                System.setProperty(name, value);
            }
        });
        System.out.flush();
        System.err.flush();
        report(order[1] + " " + said);
    }

    // Runs a cell piece by piece, to its end or the first error, and says what came of it.
    String evaluated(String code) {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String said = "none";
        for (String rest = code; !rest.isBlank();) {
            SourceCodeAnalysis.CompletionInfo piece = analysis.analyzeCompletion(rest);
            // What is not complete is a piece too, so that the compiler says what is missing.
            String source = piece.completeness().isComplete() ? piece.source() : rest;
            String left = piece.completeness().isComplete() ? piece.remaining() : "";
            boolean wanted = left.isBlank() && !rest.stripTrailing().endsWith(";");
            for (SnippetEvent event : shell.eval(source)) {
                if (unwanted) {
                    return interrupted();
                }
                if (event.exception() != null) {
                    return failed(event.exception());
                }
                // What is told of a piece by and by, after its cause, is told where it happens.
                if (event.status() == Snippet.Status.REJECTED) {
                    return rejected(event.snippet(), source);
                }
                if (event.causeSnippet() == null) {
                    said = wanted && isValue(event.snippet()) && event.value() != null && !event.value().isEmpty()
                        ? "result " + encoded(event.value()) : "none";
                }
            }
            rest = left;
        }
        return said;
    }

    static boolean isValue(Snippet snippet) {
        Snippet.SubKind kind = snippet.subKind();
        return kind == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND || kind == Snippet.SubKind.VAR_VALUE_SUBKIND
            || kind == Snippet.SubKind.ASSIGNMENT_SUBKIND || kind == Snippet.SubKind.OTHER_EXPRESSION_SUBKIND;
    }

    String rejected(Snippet snippet, String source) {
        List<String> lines = new ArrayList<>();
        String first = null;
        for (Diag diagnostic : (Iterable<Diag>) shell.diagnostics(snippet)::iterator) {
            if (!diagnostic.isError()) {
                continue;
            }
            String message = diagnostic.getMessage(Locale.ENGLISH);
            first = first == null ? message : first;
            int at = (int) Math.max(0, Math.min(diagnostic.getPosition(), source.length()));
            int begin = source.lastIndexOf('\n', at - 1) + 1;
            int end = source.indexOf('\n', at);
            lines.add("error: " + message + "\n  " + source.substring(begin, end < 0 ? source.length() : end)
                + "\n  " + " ".repeat(at - begin) + "^");
        }
        return failed("CompilationException", first == null ? "this is not Java" : first, String.join("\n", lines));
    }

    static String failed(JShellException error) {
        String name = error instanceof EvalException ? ((EvalException) error).getExceptionClassName() : error.getClass().getName();
        StringBuilder trace = new StringBuilder(name);
        if (error.getMessage() != null) {
            trace.append(": ").append(error.getMessage());
        }
        for (StackTraceElement element : error.getStackTrace()) {
            String place = element.toString();
            if (!place.contains("do_it$") && !place.startsWith("java.base/jdk.internal.reflect") && !place.startsWith("jdk.jshell/")) {
                trace.append("\n    at ").append(place);
            }
        }
        return failed(name, String.valueOf(error.getMessage()), trace.toString());
    }

    static String failed(String name, String value, String trace) {
        return "error " + encoded(name) + " " + encoded(value) + " " + encoded(trace);
    }

    static String interrupted() {
        return failed("InterruptedException", "the cell was interrupted", "");
    }

    void report(String line) throws Exception {
        reports.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        reports.flush();
    }

    static String encoded(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return bytes.length == 0 ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    static String decoded(String word) {
        return word.equals("-") ? "" : new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
