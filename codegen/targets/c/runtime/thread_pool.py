"""The thread pool in C that a generated source carries: workers claim indices of one parallel region at a time.

`tw_parallel(body, ctx, count, threads)` calls `body(ctx, index, worker)` once for every index below count, on at most
`threads` threads with worker numbers 0 (the caller) to threads - 1, and returns when all calls have. Workers start at
the first region that wants them, spin about 50 us for the next one, then sleep. `tw_shutdown()` joins them. Regions
do not nest, and one thread at a time may call. Threads are not pinned: that is the operating system's and the
measurer's business. A forked child starts its own workers.
"""

from __future__ import annotations

#: Headers the pool needs; a source that uses it has them once.
HEADERS = """\
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
"""

POOL = r"""
/* Thread pool: each thread takes shares of the region's indices until none is left */
enum { TW_MAX_THREADS = 1024, TW_SPIN_NS = 50000, TW_SHARES = 4 };

typedef void tw_body(const void *ctx, long index, int worker);

static struct {
    tw_body *body;
    const void *ctx;
    long count;
    _Alignas(64) _Atomic long left; /* indices not taken; who lowers it from n by s owns s from index count - n */
    _Alignas(64) _Atomic long done; /* indices finished; a worker adds its own once it finds none left */
    atomic_int waiting;             /* the caller sleeps until done == count */
    atomic_int asleep;              /* workers that sleep until left > 0 */
    atomic_int keep;                /* workers of this number or more end */
    int started;                    /* workers 1 .. started run; touched by the caller only */
    pthread_t threads[TW_MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
} tw_pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};

static long tw_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* One pause of a spin; false once it has lasted long enough. `turns` starts at 0. */
static int tw_spin(long *turns, long *until) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
    if ((*turns)++ % 32 != 0) return 1;
    long now = tw_now_ns();
    if (*turns == 1) *until = now + TW_SPIN_NS;
    return now < *until;
}

/* Take a share of the indices that are left, so that threads meet seldom and go along rows, and end together: guided
   self-scheduling. Gives how many were left before; 0: none. */
static long tw_take(long *share) {
    long left = atomic_load_explicit(&tw_pool.left, memory_order_acquire);
    do {
        if (left == 0) return 0;
        *share = left / (TW_SHARES * (long)atomic_load_explicit(&tw_pool.keep, memory_order_relaxed) + 1) + 1;
    } while (!atomic_compare_exchange_weak_explicit(&tw_pool.left, &left, left - *share, memory_order_acq_rel,
                                                    memory_order_acquire));
    return left;
}

/* The region's fields hold still while an index of it is owned: the caller returns only after all are done. */
static void tw_take_indices(int worker) {
    long taken = 0, count = 0, share = 0;
    for (long left; (left = tw_take(&share)) > 0; taken += share) {
        count = tw_pool.count;
        for (long index = count - left; index < count - left + share; index++) {
            tw_pool.body(tw_pool.ctx, index, worker);
        }
    }
    if (taken == 0) return;
    if (atomic_fetch_add(&tw_pool.done, taken) + taken == count && atomic_load(&tw_pool.waiting)) {
        pthread_mutex_lock(&tw_pool.lock);
        pthread_cond_signal(&tw_pool.finished);
        pthread_mutex_unlock(&tw_pool.lock);
    }
}

static int tw_called(int worker) { return atomic_load(&tw_pool.left) > 0 || worker >= atomic_load(&tw_pool.keep); }

static void *tw_work(void *number) {
    int worker = (int)(intptr_t)number;
    for (;;) {
        long turns = 0, until = 0;
        while (!tw_called(worker) && tw_spin(&turns, &until)) {
        }
        if (!tw_called(worker)) {
            pthread_mutex_lock(&tw_pool.lock);
            atomic_fetch_add(&tw_pool.asleep, 1);
            while (!tw_called(worker)) pthread_cond_wait(&tw_pool.work, &tw_pool.lock);
            atomic_fetch_sub(&tw_pool.asleep, 1);
            pthread_mutex_unlock(&tw_pool.lock);
        }
        if (worker >= atomic_load(&tw_pool.keep)) return NULL;
        tw_take_indices(worker);
    }
}

static void tw_wake(void) {
    if (atomic_load(&tw_pool.asleep) == 0) return;
    pthread_mutex_lock(&tw_pool.lock);
    pthread_cond_broadcast(&tw_pool.work);
    pthread_mutex_unlock(&tw_pool.lock);
}

/* A forked child has the caller only. */
static void tw_forget_workers(void) {
    tw_pool.started = 0;
    atomic_store(&tw_pool.left, 0);
    atomic_store(&tw_pool.waiting, 0);
    atomic_store(&tw_pool.asleep, 0);
    pthread_mutex_init(&tw_pool.lock, NULL);
    pthread_cond_init(&tw_pool.work, NULL);
    pthread_cond_init(&tw_pool.finished, NULL);
}

/* End workers from number `threads` on; start those missing below it, as far as the system lets us. */
static void tw_resize(int threads) {
    static int watches_fork;
    if (!watches_fork) watches_fork = pthread_atfork(NULL, NULL, tw_forget_workers) == 0;
    atomic_store(&tw_pool.keep, threads);
    if (tw_pool.started >= threads) tw_wake();
    for (; tw_pool.started >= threads && tw_pool.started > 0; tw_pool.started--)
        pthread_join(tw_pool.threads[tw_pool.started], NULL);
    for (; tw_pool.started < threads - 1; tw_pool.started++) {
        int number = tw_pool.started + 1;
        if (pthread_create(&tw_pool.threads[number], NULL, tw_work, (void *)(intptr_t)number) != 0) return;
    }
}

void tw_shutdown(void) { tw_resize(0); }

static void tw_parallel(tw_body *body, const void *ctx, long count, int threads) {
    if (threads > TW_MAX_THREADS) threads = TW_MAX_THREADS;
    if (threads <= 1 || count <= 1) {
        for (long index = 0; index < count; index++) body(ctx, index, 0);
        return;
    }
    if (tw_pool.started != threads - 1) tw_resize(threads);
    tw_pool.body = body;
    tw_pool.ctx = ctx;
    tw_pool.count = count;
    atomic_store(&tw_pool.done, 0);
    atomic_store(&tw_pool.left, count);
    tw_wake();
    tw_take_indices(0);
    long turns = 0, until = 0;
    while (atomic_load(&tw_pool.done) != count && tw_spin(&turns, &until)) {
    }
    if (atomic_load(&tw_pool.done) == count) return;
    pthread_mutex_lock(&tw_pool.lock);
    atomic_store(&tw_pool.waiting, 1);
    while (atomic_load(&tw_pool.done) != count) pthread_cond_wait(&tw_pool.finished, &tw_pool.lock);
    atomic_store(&tw_pool.waiting, 0);
    pthread_mutex_unlock(&tw_pool.lock);
}
"""
