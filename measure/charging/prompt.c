/* Has tcpdump's captures in blocks hand over soon what has come, where tcpdump asks for it once a
 * second: a repetition has to wait for the last block. QOP_PROMPTLY_MS says how soon, or else it is
 * ten times a second. It is preloaded; tcpdump is as it is.
 *
 * Of the C library three functions are taken, as tcpdump has them; it is linked against none.
 */
extern void *dlsym(void *, const char *);
extern char *getenv(const char *);
extern int atoi(const char *);

#define NEXT ((void *)-1L)
#define LONGEST_MS 100

int pcap_set_timeout(void *capture, int milliseconds)
{
    int (*real)(void *, int) = (int (*)(void *, int))dlsym(NEXT, "pcap_set_timeout");
    const char *asked = getenv("QOP_PROMPTLY_MS");
    int longest = asked ? atoi(asked) : LONGEST_MS;

    return real(capture, milliseconds > longest ? longest : milliseconds);
}
