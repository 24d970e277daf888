/* Has tcpdump's captures in blocks hand over what has come ten times a second, where tcpdump asks
 * for once: a repetition has to wait for the last block. Told to end, tcpdump leaves blocks that it
 * has been handed where they are; here it takes them first, so nobody has to wait until it came to
 * read them. It is preloaded; tcpdump is as it is.
 *
 * Nothing of the C library is needed but dlsym; it is linked against none.
 */
extern void *dlsym(void *, const char *);

#define NEXT ((void *)-1L)
#define LONGEST_MS 100
/* <pcap/pcap.h>: PCAP_ERROR_BREAK, PCAP_ERRBUF_SIZE. */
#define TOLD_TO_END (-2)
#define REASON_BYTES 256

typedef int (*taking)(void *, int, void *, void *);

int pcap_set_timeout(void *capture, int milliseconds)
{
    int (*real)(void *, int) = (int (*)(void *, int))dlsym(NEXT, "pcap_set_timeout");
    return real(capture, milliseconds > LONGEST_MS ? LONGEST_MS : milliseconds);
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
