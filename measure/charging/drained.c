/* Has iperf3's client say that a TCP stream is over once all of it is acknowledged. By itself it says
 * so when it has written the last block: what its own queue and those of the path hold then is counted
 * by nobody, and how much that is, is chance. It is preloaded; iperf3 is as it is.
 *
 * Of the C library one function is taken, as iperf3 has it; it is linked against none.
 */
extern void *dlsym(void *, const char *);
extern int ioctl(int, unsigned long, ...);
extern int poll(void *, unsigned long, int);

#define NEXT ((void *)-1L)
/* <iperf_api.h>: what the client writes on its first connection to end a test. */
#define TEST_END 4
/* <linux/sockios.h>: bytes of a TCP socket that are not acknowledged yet. */
#define SIOCOUTQ 0x5411
/* Iperf3 has its sockets and its file of random bytes, one after the other. */
#define FIRST 3
#define LAST 31
#define EACH_MS 1

static int is_due(int control)
{
    for (int fd = FIRST; fd <= LAST; fd++) {
        int bytes = 0;
        if (fd != control && ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
            return 1;
    }
    return 0;
}

long write(int fd, const void *data, unsigned long length)
{
    long (*real)(int, const void *, unsigned long) =
        (long (*)(int, const void *, unsigned long))dlsym(NEXT, "write");

    if (length == 1 && *(const char *)data == TEST_END)
        while (is_due(fd))
            poll(0, 0, EACH_MS);
    return real(fd, data, length);
}
