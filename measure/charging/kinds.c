/* Tells the guest's kernel, by the processor clock, when a program computes with public keys: that
 * kind of work has a factor of its own on a slow device. It is preloaded; the program itself is as
 * it is. What OpenSSL and GMP do within these functions is of that kind, all else of no kind.
 *
 * Nothing of the C library is needed but dlopen, dlsym, getenv and syscall; it is linked against
 * none.
 */
#include <sys/syscall.h>

extern void *dlopen(const char *, int);
extern void *dlsym(void *, const char *);
extern char *getenv(const char *);
extern long syscall(long, ...);

#define NEXT ((void *)-1L)
#define IF_LOADED 5 /* RTLD_LAZY | RTLD_NOLOAD */
/* As in the kernel: what the thread computes from now on; returns what it did before. */
#define SET_WORK_KIND 0x716f7001L
#define PUBLIC_KEY 1L
#define NOBODYS 4L

/* The harness' own tools on a node say so in their environment; programs that they start have it. */
__attribute__((constructor)) static void begin(void)
{
    if (getenv("QOP_WORK"))
        syscall(SYS_prctl, SET_WORK_KIND, NOBODYS, 0L, 0L, 0L);
}

/* All of them take six arguments at most, in registers, and return in one. */
typedef long function(long, long, long, long, long, long);

/* A plugin's libraries are not among those that the program itself began with. */
static function *real_one(const char *name)
{
    static const char *const libraries[] = {"libcrypto.so.3", "libgmp.so.10"};
    function *real = (function *)dlsym(NEXT, name);
    for (int i = 0; !real && i < 2; i++) {
        void *library = dlopen(libraries[i], IF_LOADED);
        if (library)
            real = (function *)dlsym(library, name);
    }
    return real;
}

#define OF_PUBLIC_KEYS(name)                                                   \
    long name(long a, long b, long c, long d, long e, long f)                  \
    {                                                                          \
        static function *real;                                                 \
        if (!real)                                                             \
            real = real_one(#name);                                            \
        long before = syscall(SYS_prctl, SET_WORK_KIND, PUBLIC_KEY, 0L, 0L, 0L); \
        long result = real(a, b, c, d, e, f);                                  \
        syscall(SYS_prctl, SET_WORK_KIND, before < 0 ? 0L : before, 0L, 0L, 0L); \
        return result;                                                         \
    }

OF_PUBLIC_KEYS(EVP_DigestSign)
OF_PUBLIC_KEYS(EVP_DigestSignFinal)
OF_PUBLIC_KEYS(EVP_DigestVerify)
OF_PUBLIC_KEYS(EVP_DigestVerifyFinal)
OF_PUBLIC_KEYS(EVP_PKEY_sign)
OF_PUBLIC_KEYS(EVP_PKEY_verify)
OF_PUBLIC_KEYS(EVP_PKEY_encrypt)
OF_PUBLIC_KEYS(EVP_PKEY_decrypt)
OF_PUBLIC_KEYS(EVP_PKEY_derive)
OF_PUBLIC_KEYS(EVP_PKEY_keygen)
OF_PUBLIC_KEYS(EVP_PKEY_generate)
OF_PUBLIC_KEYS(DH_generate_key)
OF_PUBLIC_KEYS(DH_compute_key)
OF_PUBLIC_KEYS(ECDH_compute_key)
OF_PUBLIC_KEYS(EC_KEY_generate_key)
OF_PUBLIC_KEYS(EC_POINT_mul)
OF_PUBLIC_KEYS(BN_mod_exp)
OF_PUBLIC_KEYS(BN_mod_exp_mont)
OF_PUBLIC_KEYS(RSA_private_encrypt)
OF_PUBLIC_KEYS(RSA_private_decrypt)
OF_PUBLIC_KEYS(RSA_public_encrypt)
OF_PUBLIC_KEYS(RSA_public_decrypt)
OF_PUBLIC_KEYS(__gmpz_powm)
OF_PUBLIC_KEYS(__gmpz_powm_sec)
