/* How long a timed card needs: an estimate by a roofline, from what a launch tells of its work.
 *
 * The rates are what the caller states (NULLCARD_RATES; rehearse/kernel_model.py). A product of
 * matrices has its FLOPs. Of another kernel only the number of its threads is known: each is assumed
 * to move 32 bytes, as where torch's elementwise kernels read 4 floats and write as many (VT_SIZE and
 * vec_size in aten/src/ATen/native/cuda/MemoryAccess.cuh). Attention that is fused, and reductions,
 * take longer on a card. That no kernel takes less than 2 us is assumed.
 */
#include "nullcard.h"

#define OF_A_THREAD 32.0 /* bytes */
#define SHORTEST 2e-3    /* ms */

static double longest(double a, double b) { return a > b ? a : b; }

double null_kernel_ms(uint64_t threads) {
    const struct card *card = null_card();
    if (!card->timed) return 0;
    return longest(SHORTEST, 1e3 * OF_A_THREAD * (double)threads / card->bandwidth);
}
double null_product_ms(double m, double n, double k, double batches, enum precision precision) {
    const struct card *card = null_card();
    if (!card->timed) return 0;
    double size = precision == FP64 ? 8 : precision >= FP16 ? 2 : 4;
    double computing = 2 * m * n * k * batches / card->flops[precision];
    double moving = size * (m * k + k * n + m * n) * batches / card->bandwidth;
    return longest(SHORTEST, 1e3 * longest(computing, moving));
}
double null_copy_ms(enum copy kind, size_t bytes) {
    const struct card *card = null_card();
    if (!card->timed || kind == H2H) return 0;
    return 1e3 * (kind == D2D ? 2 * (double)bytes / card->bandwidth : (double)bytes / card->bus);
}
double null_memset_ms(size_t bytes) {
    const struct card *card = null_card();
    return card->timed ? 1e3 * (double)bytes / card->bandwidth : 0;
}
