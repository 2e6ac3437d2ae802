/* cuBLAS and cuBLASLt: each product is counted, in the stream of its handle, and computes nothing.
 *
 * What is written here as BLAS takes a handle first and works in the handle's stream ("cuBLAS
 * Library", cublasSetStream). Not modelled: with the pointer mode "host" a call that returns a number
 * (dot, nrm2, asum, amax) waits for the card; torch sets the mode "device" for those it calls itself.
 */
#define _GNU_SOURCE
#include "nullcard.h"

#include <stdlib.h>
#include <string.h>

struct blas {
    void *stream;
    int math_mode, pointer_mode;
};

int cublasCreate_v2(struct blas **out) { return *out = calloc(1, sizeof **out), SUCCESS; }
int cublasDestroy_v2(struct blas *handle) { return free(handle), SUCCESS; }
int cublasSetStream_v2(struct blas *handle, void *stream) { return handle->stream = stream, SUCCESS; }
int cublasGetStream_v2(struct blas *handle, void **stream) { return *stream = handle->stream, SUCCESS; }
int cublasSetMathMode(struct blas *handle, int mode) { return handle->math_mode = mode, SUCCESS; }
int cublasGetMathMode(struct blas *handle, int *mode) { return *mode = handle->math_mode, SUCCESS; }
int cublasSetPointerMode_v2(struct blas *handle, int mode) { return handle->pointer_mode = mode, SUCCESS; }
int cublasGetPointerMode_v2(struct blas *handle, int *mode) { return *mode = handle->pointer_mode, SUCCESS; }
int cublasSetWorkspace_v2(void) { return SUCCESS; }
int cublasSetSmCountTarget(void) { return SUCCESS; }
int cublasSetEmulationStrategy(void) { return SUCCESS; }

/* cublasStatus_t: 13 is CUBLAS_STATUS_EXECUTION_FAILED, what a launch that fails becomes. */
static int call(enum kind kind, const char *name, void *stream, double ms) {
    return null_submit(stream, null_counter(kind, name), ms) ? 13 : SUCCESS;
}
/* cudaDataType of the factors; cublasComputeType_t 77 and math mode 3 allow TF32. */
static enum precision precision_of(int type, int may_tf32) {
    if (type == 2) return FP16;
    if (type == 14) return BF16;
    if (type == 1 || type == 5) return FP64;
    return may_tf32 ? TF32 : FP32;
}

/* ---- cuBLASLt ---- */

struct description { /* of a product: its compute type and whether A is transposed; of a matrix */
    int compute, transposed, type, batches;
    uint64_t rows, columns;
};
static int describe(struct description **out) { return *out = calloc(1, sizeof **out), SUCCESS; }
static int forget(struct description *description) { return free(description), SUCCESS; }

size_t cublasLtGetVersion(void) { return 130100; } /* 13.1.0, that of CUDA 13.0 */
int cublasLtCreate(struct blas **out) { return cublasCreate_v2(out); }
int cublasLtDestroy(struct blas *handle) { return cublasDestroy_v2(handle); }
int cublasLtMatmulDescCreate(struct description **out, int compute, int scale) {
    (void)scale;
    return describe(out), (*out)->compute = compute, SUCCESS;
}
int cublasLtMatmulDescDestroy(struct description *one) { return forget(one); }
int cublasLtMatmulDescSetAttribute(struct description *one, int attribute, const void *value, size_t bytes) {
    if (attribute == 3 && bytes == sizeof(int)) one->transposed = *(const int *)value; /* ..._TRANSA */
    return SUCCESS;
}
int cublasLtMatrixLayoutCreate(struct description **out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    (void)leading, describe(out);
    **out = (struct description){.type = type, .rows = rows, .columns = columns, .batches = 1};
    return SUCCESS;
}
int cublasLtMatrixLayoutDestroy(struct description *one) { return forget(one); }
int cublasLtMatrixLayoutSetAttribute(struct description *one, int attribute, const void *value, size_t bytes) {
    if (attribute == 5 && bytes == sizeof(int)) one->batches = *(const int *)value; /* ..._BATCH_COUNT */
    return SUCCESS;
}
int cublasLtMatmulPreferenceCreate(struct description **out) { return describe(out); }
int cublasLtMatmulPreferenceDestroy(struct description *one) { return forget(one); }
int cublasLtMatmulPreferenceSetAttribute(void) { return SUCCESS; }

struct heuristic { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace; /* bytes */
    int status;
    float waves;
    int reserved[4];
};
/* One algorithm is found for every product, and it needs no workspace. */
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, struct heuristic *found, int *count) {
    (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference;
    if (wanted < 1) return 7; /* CUBLAS_STATUS_INVALID_VALUE */
    memset(found, 0, sizeof *found);
    return *count = 1, SUCCESS;
}
int cublasLtMatmul(void *handle, const struct description *product, const void *alpha, const void *a,
                   const struct description *la, const void *b, void *lb, const void *beta, const void *c, void *lc,
                   void *d, const struct description *ld, const void *algorithm, void *workspace, size_t bytes,
                   void *stream) {
    (void)handle, (void)alpha, (void)a, (void)b, (void)lb, (void)beta, (void)c, (void)lc;
    (void)d, (void)algorithm, (void)workspace, (void)bytes;
    double k = (double)(product->transposed ? la->rows : la->columns);
    enum precision precision = precision_of(la->type, product->compute == 77);
    double ms = null_product_ms((double)ld->rows, (double)ld->columns, k, ld->batches, precision);
    return call(GEMM, "cublasLtMatmul", stream, ms);
}

/* ---- cuBLAS: GEMM is a product of matrices; BLAS, all else ---- */

/* The time of those without sizes here is that of a short kernel. */
#define ROUTINE(kind, name) \
    int name(struct blas *handle) { return call(kind, #name, handle->stream, null_kernel_ms(1)); }
#define FOUR(kind, name) /* for float, double, and complex of both */ \
    ROUTINE(kind, cublasS##name) ROUTINE(kind, cublasD##name) ROUTINE(kind, cublasC##name) ROUTINE(kind, cublasZ##name)
#define REAL(kind, name) ROUTINE(kind, cublasS##name) ROUTINE(kind, cublasD##name)
#define COMPLEX(kind, name) ROUTINE(kind, cublasC##name) ROUTINE(kind, cublasZ##name)

/* A, B, C and D of the reference; a complex product is four real ones. */
#define TF32_MODE 3
#define PRODUCT(name, type, times) \
    int name(struct blas *handle, int ta, int tb, int m, int n, int k) { \
        (void)ta, (void)tb; \
        enum precision precision = precision_of(type, handle->math_mode == TF32_MODE); \
        return call(GEMM, #name, handle->stream, null_product_ms(m, n, k, times, precision)); \
    }
#define STRIDED(name, type, times) \
    int name(struct blas *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, \
             long long sa, const void *b, int ldb, long long sb, const void *beta, void *c, int ldc, long long sc, \
             int batches) { \
        (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)sa, (void)b, (void)ldb, (void)sb, (void)beta; \
        (void)c, (void)ldc, (void)sc; \
        enum precision precision = precision_of(type, handle->math_mode == TF32_MODE); \
        return call(GEMM, #name, handle->stream, null_product_ms(m, n, k, (double)batches * times, precision)); \
    }
PRODUCT(cublasSgemm_v2, 0, 1) PRODUCT(cublasDgemm_v2, 1, 1) PRODUCT(cublasCgemm_v2, 0, 4) PRODUCT(cublasZgemm_v2, 1, 4)
STRIDED(cublasSgemmStridedBatched, 0, 1) STRIDED(cublasDgemmStridedBatched, 1, 1)
STRIDED(cublasCgemmStridedBatched, 0, 4) STRIDED(cublasZgemmStridedBatched, 1, 4)
FOUR(GEMM, gemmBatched)
ROUTINE(GEMM, cublasSgemmEx)
ROUTINE(GEMM, cublasGemmBatchedEx)
ROUTINE(GEMM, cublasGemmGroupedBatchedEx)
int cublasGemmEx(struct blas *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type) {
    (void)ta, (void)tb, (void)alpha, (void)a;
    enum precision precision = precision_of(type, handle->math_mode == TF32_MODE);
    return call(GEMM, "cublasGemmEx", handle->stream, null_product_ms(m, n, k, 1, precision));
}
int cublasGemmStridedBatchedEx(struct blas *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                               const void *a, int type, int lda, long long sa, const void *b, int tb_, int ldb,
                               long long sb, const void *beta, void *c, int tc, int ldc, long long sc, int batches) {
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)sa, (void)b, (void)tb_, (void)ldb, (void)sb;
    (void)beta, (void)c, (void)tc, (void)ldc, (void)sc;
    enum precision precision = precision_of(type, handle->math_mode == TF32_MODE);
    double ms = null_product_ms(m, n, k, batches, precision);
    return call(GEMM, "cublasGemmStridedBatchedEx", handle->stream, ms);
}

/* Vectors. */
FOUR(BLAS, axpy_v2) FOUR(BLAS, copy_v2) FOUR(BLAS, swap_v2) FOUR(BLAS, scal_v2)
FOUR(BLAS, rot_v2) FOUR(BLAS, rotg_v2) REAL(BLAS, rotm_v2) REAL(BLAS, rotmg_v2)
REAL(BLAS, dot_v2) COMPLEX(BLAS, dotc_v2) COMPLEX(BLAS, dotu_v2) ROUTINE(BLAS, cublasDotEx)
REAL(BLAS, asum_v2) REAL(BLAS, nrm2_v2)
ROUTINE(BLAS, cublasScasum_v2) ROUTINE(BLAS, cublasDzasum_v2) ROUTINE(BLAS, cublasScnrm2_v2)
ROUTINE(BLAS, cublasDznrm2_v2) ROUTINE(BLAS, cublasCsrot_v2) ROUTINE(BLAS, cublasZdrot_v2)
ROUTINE(BLAS, cublasCsscal_v2) ROUTINE(BLAS, cublasZdscal_v2)
ROUTINE(BLAS, cublasIsamax_v2) ROUTINE(BLAS, cublasIdamax_v2) ROUTINE(BLAS, cublasIcamax_v2)
ROUTINE(BLAS, cublasIzamax_v2) ROUTINE(BLAS, cublasIsamin_v2) ROUTINE(BLAS, cublasIdamin_v2)
ROUTINE(BLAS, cublasIcamin_v2) ROUTINE(BLAS, cublasIzamin_v2)

/* A matrix and a vector. */
FOUR(BLAS, gemv_v2) REAL(BLAS, ger_v2) COMPLEX(BLAS, gerc_v2) COMPLEX(BLAS, geru_v2)
FOUR(BLAS, symv_v2) COMPLEX(BLAS, hemv_v2) FOUR(BLAS, syr_v2) COMPLEX(BLAS, her_v2)
FOUR(BLAS, syr2_v2) COMPLEX(BLAS, her2_v2) FOUR(BLAS, trmv_v2) FOUR(BLAS, trsv_v2)

/* Matrices that are not plain, and solvers of many small systems. */
FOUR(BLAS, symm_v2) COMPLEX(BLAS, hemm_v2) FOUR(BLAS, syrk_v2) COMPLEX(BLAS, herk_v2)
FOUR(BLAS, syr2k_v2) COMPLEX(BLAS, her2k_v2) FOUR(BLAS, trmm_v2) FOUR(BLAS, trsm_v2)
FOUR(BLAS, trsmBatched) FOUR(BLAS, gelsBatched) FOUR(BLAS, geqrfBatched)
FOUR(BLAS, getrfBatched) FOUR(BLAS, getrsBatched)

/* Copies of vectors and matrices between host and card: without a model. */
int cublasSetVectorAsync(void) { return 15; } /* CUBLAS_STATUS_NOT_SUPPORTED */
int cublasGetVectorAsync(void) { return 15; }
int cublasSetMatrixAsync(void) { return 15; }
int cublasGetMatrixAsync(void) { return 15; }
