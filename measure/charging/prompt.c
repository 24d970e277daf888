/* Has tcpdump's captures in blocks hand over soon what has come, where tcpdump asks for it once a
 * second: a repetition has to wait for the last block. QOP_PROMPTLY_MS says how soon, or else it is
 * ten times a second. Told to end, tcpdump leaves blocks that it has been handed where they are;
 * here it takes them first, so nobody has to wait until it came to read them. It is preloaded;
 * tcpdump is as it is.
 *
 * Of the C library three functions are taken, as tcpdump has them; it is linked against none.
 */
extern void *dlsym(void *, const char *);
extern char *getenv(const char *);
extern int atoi(const char *);

#define NEXT ((void *)-1L)
#define LONGEST_MS 100
/* <pcap/pcap.h>: PCAP_ERROR_BREAK, PCAP_ERRBUF_SIZE. */
#define TOLD_TO_END (-2)
#define REASON_BYTES 256

typedef int (*taking)(void *, int, void *, void *);

int pcap_set_timeout(void *capture, int milliseconds)
{
    int (*real)(void *, int) = (int (*)(void *, int))dlsym(NEXT, "pcap_set_timeout");
    const char *asked = getenv("QOP_PROMPTLY_MS");
    int longest = asked ? atoi(asked) : LONGEST_MS;

    return real(capture, milliseconds > longest ? longest : milliseconds);
}

int pcap_loop(void *capture, int count, void *take, void *user)
{
    int ended = ((taking)dlsym(NEXT, "pcap_loop"))(capture, count, take, user);
    int (*give_up_waiting)(void *, int, char *) =
        (int (*)(void *, int, char *))dlsym(NEXT, "pcap_setnonblock");
    char reason[REASON_BYTES];

    if (ended == TOLD_TO_END && give_up_waiting(capture, 1, reason) == 0)
        ((taking)dlsym(NEXT, "pcap_dispatch"))(capture, -1, take, user);
    return ended;
}
