/* Has tcpdump's captures in blocks hand over what has come ten times a second, where tcpdump asks
 * for once: a repetition has to wait for the last block. It is preloaded; tcpdump is as it is.
 *
 * Nothing of the C library is needed but dlsym; it is linked against none.
 */
extern void *dlsym(void *, const char *);

#define NEXT ((void *)-1L)
#define LONGEST_MS 100

int pcap_set_timeout(void *capture, int milliseconds)
{
    int (*real)(void *, int) = (int (*)(void *, int))dlsym(NEXT, "pcap_set_timeout");
    return real(capture, milliseconds > LONGEST_MS ? LONGEST_MS : milliseconds);
}
