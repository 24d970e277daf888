/* Charges a program that uses OpenSSL for its public-key work: each signature and each verification
 * (those of a chain's certificates are among them: OpenSSL makes them by the same function) takes
 * the time that the environment says, on an emulated processor which all threads of the program
 * share. It is preloaded; the program itself is as it is.
 *
 * Processor sharing is exact: every job that is present attains service at the same rate, so that
 * they end in the order of what they are to attain. Only the first of them waits for an instant; it
 * wakes the next one when it has its own, so that a job costs as much with hundreds as with one.
 * (Round robin in quanta would need a turn for each of them.) Who has attained its work has left the
 * processor at that instant, however late the machine wakes its thread, in real time: what the
 * others attain does not depend on that.
 *
 * Nothing of the C library is needed but dlsym, getenv, strtod and syscall, and it is linked against
 * none, so that one file fits the library of whichever system it is loaded on.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

extern void *dlsym(void *, const char *);
extern char *getenv(const char *);
extern double strtod(const char *, char **);
extern long syscall(long, ...);

#define NEXT ((void *)-1L)
#define SET_TIMERSLACK 29
#define NEARLY 1e-9 /* seconds: less than any clock here tells apart */

enum { SIGN, VERIFY, KINDS };
static const char *const variable[KINDS] = {"QOP_CHARGE_SIGN_S", "QOP_CHARGE_VERIFY_S"};

/* What the one who started the program reads, see measure/charging/device.py. */
struct account {
    double busy_s, charged_s, waited_s;
    uint64_t jobs[KINDS];
};

/* A job that is present, on its thread's stack; the ones that end earlier stand before it. */
struct job {
    double until_s;
    int woken, is_done;
    struct job *next;
};

static int lock, is_ready, present;
static struct job *first;
static double cost_s[KINDS], processors = 1, attained_s, last_s;
static struct account nowhere, *account = &nowhere;

static double now_s(void)
{
    struct timespec at;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void enter(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        syscall(SYS_sched_yield);
}

static void leave(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static void prepare(void)
{
    const char *file = getenv("QOP_CHARGE_ACCOUNT"), *count = getenv("QOP_CHARGE_PROCESSORS");
    for (int kind = 0; kind < KINDS; kind++) {
        const char *said = getenv(variable[kind]);
        cost_s[kind] = said ? strtod(said, NULL) : 0;
    }
    if (count)
        processors = strtod(count, NULL);
    if (file) {
        long descriptor = syscall(SYS_openat, AT_FDCWD, file, O_RDWR);
        long place = descriptor < 0 ? -1 : syscall(SYS_mmap, NULL, sizeof *account,
            PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0L);
        if (place > 0 || place < -4095)
            account = (struct account *)place;
    }
    is_ready = 1;
}

/* Of one processor, what each job gets. */
static double rate(void)
{
    return present > processors ? processors / present : 1;
}

static void serve(double until)
{
    if (until <= last_s)
        return;
    if (present) {
        attained_s += (until - last_s) * rate();
        account->busy_s += (until - last_s) * (present < processors ? present / processors : 1);
    }
    last_s = until;
}

static void wake(struct job *job)
{
    job->woken++;
    syscall(SYS_futex, &job->woken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* What was attained by now, and who left meanwhile, each at its own instant. */
static void advance(double now)
{
    struct job *before = first;
    while (first) {
        struct job *leaving = first;
        double at = last_s + (leaving->until_s - attained_s) / rate();
        if (at > now + NEARLY)
            break;
        serve(at);
        attained_s = leaving->until_s;
        first = leaving->next;
        present--;
        leaving->is_done = 1;
        wake(leaving);
    }
    serve(now);
    if (first && first != before)
        wake(first); /* from now on it waits for an instant */
}

static void insert(struct job *job)
{
    struct job **place = &first;
    while (*place && (*place)->until_s <= job->until_s)
        place = &(*place)->next;
    job->next = *place;
    *place = job;
}

/* Until its instant, if it is the first, as things are now; the others until they are woken. Who
 * comes meanwhile only delays it: it wakes too early, and waits anew. The lock is held but for the
 * wait. */
static void await(struct job *job, double now)
{
    double wake = now + (job->until_s - attained_s) / rate();
    struct timespec at = {(time_t)wake, (long)((wake - (time_t)wake) * 1e9) + 1};
    if (at.tv_nsec > 999999999)
        at.tv_nsec = 999999999;
    int seen = job->woken, is_first = first == job;
    leave();
    syscall(SYS_futex, &job->woken, FUTEX_WAIT_BITSET_PRIVATE, seen, is_first ? &at : NULL, NULL,
            FUTEX_BITSET_MATCH_ANY);
    enter();
}

static void take(double cost, double begun)
{
    advance(begun);
    struct job job = {attained_s + cost, 0, 0, NULL};
    double now = begun;
    present++;
    account->charged_s += cost;
    insert(&job);
    while (!job.is_done) {
        await(&job, now);
        now = now_s();
        advance(now);
    }
    account->waited_s += now - begun;
}

static void charge(int kind)
{
    static __thread int is_exact;
    if (!is_exact) {
        syscall(SYS_prctl, SET_TIMERSLACK, 1L, 0L, 0L, 0L);
        is_exact = 1;
    }
    enter();
    if (!is_ready)
        prepare();
    account->jobs[kind]++;
    if (cost_s[kind] > 0)
        take(cost_s[kind], now_s());
    leave();
}

int EVP_DigestSign(void *context, unsigned char *signature, size_t *length,
                   const unsigned char *data, size_t size)
{
    static int (*real)(void *, unsigned char *, size_t *, const unsigned char *, size_t);
    if (!real)
        real = dlsym(NEXT, "EVP_DigestSign");
    if (signature) /* without, it asks for the length */
        charge(SIGN);
    return real(context, signature, length, data, size);
}

int EVP_DigestVerify(void *context, const unsigned char *signature, size_t length,
                     const unsigned char *data, size_t size)
{
    static int (*real)(void *, const unsigned char *, size_t, const unsigned char *, size_t);
    if (!real)
        real = dlsym(NEXT, "EVP_DigestVerify");
    charge(VERIFY);
    return real(context, signature, length, data, size);
}
