// Java that burns a second of CPU time in a named method, which is compiled; its caller stays
// interpreted.
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

public class Burn {
    static int burnsInJava(int rounds) {
        int x = 1;
        for (int i = 0; i < rounds; i++) x = x * 1103515245 + 12345;
        return x;
    }

    static int callsBurnsInJava(long milliseconds) {
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long end = clock.getCurrentThreadCpuTime() + milliseconds * 1_000_000;
        int sum = 0;
        while (clock.getCurrentThreadCpuTime() < end) sum ^= burnsInJava(300_000);
        return sum;
    }

    public static void main(String[] arguments) {
        System.out.println(callsBurnsInJava(1000));
    }
}
