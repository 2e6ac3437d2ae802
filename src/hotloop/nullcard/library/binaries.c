/* Which architecture of a program's binaries runs on the card: the lists that nvcc puts into it.
 *
 * The layout of these lists is not documented by NVIDIA; `cuobjdump --list-elf` prints the same. A
 * list that does not begin as expected is taken to hold what the card needs.
 */
#include "nullcard.h"

#include <string.h>

#define WRAPPER_MAGIC 0x466243b1u
#define LIST_MAGIC 0xba55ed50u
enum { PTX = 1, BINARY = 2 };

struct wrapper { /* what __cudaRegisterFatBinary is given */
    uint32_t magic, version;
    const unsigned char *list;
};
struct list {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of the entries that follow */
};
struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* of its content, which follows its header */
    uint32_t compressed, unknown[2], architecture; /* 86 for sm_86 */
};
_Static_assert(offsetof(struct entry, architecture) == 28, "entry of a list of binaries");

/* Guide, "Binary compatibility" and "PTX compatibility": a binary runs on cards of its major
 * capability and of its minor or a later one; PTX is compiled for any later card. */
static int runs(int kind, int architecture, int card) {
    if (kind == PTX) return architecture <= card;
    return kind == BINARY && architecture / 10 == card / 10 && architecture <= card;
}
int null_architecture(const void *registered) {
    const struct wrapper *wrapper = registered;
    const int card = null_card()->capability;
    if (!wrapper || wrapper->magic != WRAPPER_MAGIC) return card;
    struct list list;
    memcpy(&list, wrapper->list, sizeof list);
    if (list.magic != LIST_MAGIC) return card;
    const unsigned char *at = wrapper->list + list.header_bytes, *end = at + list.bytes;
    int best[3] = {0, 0, 0}; /* by kind; 0: none */
    while (at + sizeof(struct entry) <= end) {
        struct entry entry;
        memcpy(&entry, at, sizeof entry);
        int architecture = (int)entry.architecture;
        if (runs(entry.kind, architecture, card) && architecture > best[entry.kind]) best[entry.kind] = architecture;
        if (!entry.header_bytes) return card; /* not the layout that we know */
        at += entry.header_bytes + entry.bytes;
    }
    return best[BINARY] ? best[BINARY] : best[PTX]; /* a binary is preferred: Guide, the same */
}
