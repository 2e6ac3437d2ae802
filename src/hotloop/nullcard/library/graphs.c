/* Stream capture and graphs: what may be called under a capture, and what a graph replays. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum mode { GLOBAL, THREAD_LOCAL, RELAXED }; /* cudaStreamCaptureMode */
enum { NONE, ACTIVE, INVALIDATED };          /* cudaStreamCaptureStatus */

struct graph { /* also of an executable graph; edges are not kept */
    struct counter **nodes; /* NULL: a node that is no kernel */
    size_t count;
    double ms; /* of the card for all nodes, one after the other */
};
struct capture {
    uint64_t id;
    enum mode mode;
    pthread_t thread;
    struct stream *origin;
    int invalid;
    struct graph *graph;
    struct capture *next;
};
static struct capture *captures; /* those in progress */
static uint64_t last_id;
static __thread enum mode thread_mode = GLOBAL;

int null_is_invalid(const struct capture *capture) { return capture->invalid; }
uint64_t null_capture_id(const struct capture *capture) { return capture->id; }
struct capture *null_capture(uint64_t id) {
    struct capture *one = captures;
    while (one && one->id != id) one = one->next;
    return id ? one : NULL;
}
/* Guide: an invalid operation invalidates the graph; its streams stay in capture mode, and each use
 * of them fails, until cudaStreamEndCapture. */
int null_invalidate(struct capture *capture, int status) {
    if (capture) capture->invalid = 1;
    return status;
}
int null_invalidate_all(void) {
    for (struct capture *one = captures; one; one = one->next) one->invalid = 1;
    return captures ? CAPTURE_UNSUPPORTED : SUCCESS;
}
int null_capture_blocks_legacy(void) {
    int count;
    struct stream *streams = null_streams(&count);
    for (int i = 0; captures && i < count; i++)
        if (streams[i].capture && !(streams[i].flags & 1)) return 1; /* not cudaStreamNonBlocking */
    return 0;
}
/* API, cudaThreadExchangeStreamCaptureMode: a thread in global mode may make no potentially unsafe
 * call (cudaMalloc, cudaEventQuery) while it captures other than in relaxed mode, or while any
 * thread captures in global mode; one in thread-local mode not while it captures itself so; one in
 * relaxed mode always may. */
int null_unsafe(void) {
    int status = SUCCESS;
    for (struct capture *one = captures; one && thread_mode != RELAXED; one = one->next) {
        int own = pthread_equal(one->thread, pthread_self()) && one->mode != RELAXED;
        if (own || (thread_mode == GLOBAL && one->mode == GLOBAL))
            status = null_invalidate(one, CAPTURE_UNSUPPORTED);
    }
    return status;
}
int null_record_node(struct capture *capture, struct counter *counter, double ms) {
    if (capture->invalid) return CAPTURE_INVALIDATED;
    struct graph *graph = capture->graph;
    if ((graph->count & (graph->count + 1)) == 0) /* 0, 1, 3, 7, ...: the room doubles */
        graph->nodes = realloc(graph->nodes, sizeof *graph->nodes * 2 * (graph->count + 1));
    graph->nodes[graph->count++] = counter;
    graph->ms += ms;
    return SUCCESS;
}
void null_join(struct stream *stream, struct capture *capture) {
    stream->capture = capture;
    stream->joined_at = stream->work;
}

/* ---- capture ---- */

/* API: not on the legacy stream; a stream that captures already is cudaErrorIllegalState. */
int cudaStreamBeginCapture(void *handle, int mode) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    if (!stream) return null_fail(INVALID_HANDLE);
    if (stream->index == 0) return null_fail(CAPTURE_UNSUPPORTED);
    if (stream->capture) return null_fail(ILLEGAL_STATE);
    struct capture *capture = calloc(1, sizeof *capture);
    *capture = (struct capture){++last_id, (enum mode)mode, pthread_self(), stream, 0,
                                calloc(1, sizeof(struct graph)), captures};
    captures = capture;
    totals.captures++;
    null_join(stream, capture);
    return SUCCESS;
}
static int joined(const struct capture *capture) {
    int count;
    struct stream *streams = null_streams(&count);
    for (int i = 0; i < count; i++)
        if (streams[i].capture == capture && streams[i].work > streams[i].joined_at &&
            capture->origin->before.seen[i] < streams[i].work)
            return 0;
    return 1;
}
static void leave(struct capture *capture) {
    int count;
    struct stream *streams = null_streams(&count);
    for (int i = 0; i < count; i++)
        if (streams[i].capture == capture) streams[i].capture = NULL;
    struct capture **slot = &captures;
    while (*slot != capture) slot = &(*slot)->next;
    *slot = capture->next;
}
static void forget(struct graph *graph) { free(graph->nodes), free(graph); }

/* API: on the stream of cudaStreamBeginCapture (cudaErrorStreamCaptureUnmatched), on its thread but
 * in relaxed mode (cudaErrorStreamCaptureWrongThread), and with all forked streams joined
 * (cudaErrorStreamCaptureUnjoined). An invalidated capture ends with an error and no graph. */
int cudaStreamEndCapture(void *handle, struct graph **out) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    *out = NULL;
    if (!stream || !stream->capture) return null_fail(stream ? ILLEGAL_STATE : INVALID_HANDLE);
    struct capture *capture = stream->capture;
    if (capture->origin != stream)
        return null_fail(null_invalidate(capture, CAPTURE_UNMATCHED));
    if (capture->mode != RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return null_fail(null_invalidate(capture, CAPTURE_WRONG_THREAD));
    int status = capture->invalid ? CAPTURE_INVALIDATED : joined(capture) ? SUCCESS : CAPTURE_UNJOINED;
    leave(capture);
    if (status) totals.captures_failed++, forget(capture->graph);
    else *out = capture->graph;
    free(capture);
    return null_fail(status);
}
/* API: may be asked at any time; of the legacy stream while a blocking stream captures it is
 * cudaErrorStreamCaptureImplicit. */
int cudaStreamIsCapturing(void *handle, int *status) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    if (!stream) return null_fail(INVALID_HANDLE);
    if (stream->index == 0 && null_capture_blocks_legacy()) return null_fail(CAPTURE_IMPLICIT);
    *status = !stream->capture ? NONE : stream->capture->invalid ? INVALIDATED : ACTIVE;
    return SUCCESS;
}
/* The nodes that the next one would depend on are not kept: none are named. */
int cudaStreamGetCaptureInfo(void *handle, int *status, unsigned long long *id, struct graph **graph,
                             const void ***nodes, const void **edges, size_t *count) {
    LOCKED;
    int error = cudaStreamIsCapturing(handle, status);
    if (error || *status == NONE) return error;
    struct capture *capture = null_stream(handle)->capture;
    static const void *no_nodes[1];
    if (id) *id = capture->id;
    if (graph) *graph = capture->graph;
    if (nodes) *nodes = no_nodes;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return SUCCESS;
}
int cudaStreamUpdateCaptureDependencies(void *handle, void *nodes, const void *edges, size_t count, unsigned flags) {
    (void)nodes, (void)edges, (void)count, (void)flags;
    LOCKED;
    struct stream *stream = null_stream(handle);
    return null_fail(!stream ? INVALID_HANDLE : stream->capture ? SUCCESS : ILLEGAL_STATE);
}
int cudaThreadExchangeStreamCaptureMode(int *mode) {
    enum mode before = thread_mode;
    thread_mode = (enum mode)*mode;
    return *mode = (int)before, SUCCESS;
}

/* ---- graphs ---- */

/* API: the executable graph is a snapshot; the graph may be destroyed after it. */
int cudaGraphInstantiateWithFlags(struct graph **out, struct graph *graph, unsigned long long flags) {
    (void)flags;
    LOCKED;
    if (!graph) return null_fail(INVALID_VALUE);
    struct graph *copy = calloc(1, sizeof *copy);
    copy->nodes = malloc(sizeof *copy->nodes * (graph->count + 1));
    if (graph->count) memcpy(copy->nodes, graph->nodes, sizeof *copy->nodes * graph->count);
    copy->count = graph->count;
    totals.instantiated++;
    return *out = copy, SUCCESS;
}
int cudaGraphInstantiate(struct graph **out, struct graph *graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}
/* API: a graph is one operation of the stream. In a capture it would be a child graph: its nodes. */
int cudaGraphLaunch(struct graph *graph, void *handle) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    if (!graph || !stream) return null_fail(graph ? INVALID_HANDLE : INVALID_VALUE);
    struct capture *capture = stream->capture;
    int status = SUCCESS;
    for (size_t i = 0; capture && !status && i < graph->count; i++)
        status = null_submit(handle, graph->nodes[i], graph->ms / (double)graph->count);
    if (!capture) status = null_submit(handle, NULL, graph->ms);
    if (capture || status) return null_fail(status);
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]) graph->nodes[i]->replayed++;
    totals.graph_launches++;
    return SUCCESS;
}
int cudaGraphDestroy(struct graph *graph) { return forget(graph), SUCCESS; }
int cudaGraphExecDestroy(struct graph *graph) { return forget(graph), SUCCESS; }
/* API: with no room given it tells how many there are. The nodes themselves have no handles here. */
int cudaGraphGetNodes(struct graph *graph, void **nodes, size_t *count) {
    if (!graph) return null_fail(INVALID_VALUE);
    if (nodes) memset(nodes, 0, sizeof *nodes * *count);
    return *count = graph->count, SUCCESS;
}
int cudaGraphNodeGetDependencies(void *node, void **nodes, void *edges, size_t *count) {
    (void)node, (void)nodes, (void)edges;
    return *count = 0, SUCCESS;
}
int cudaGraphDebugDotPrint(struct graph *graph, const char *path, unsigned flags) {
    (void)graph, (void)path, (void)flags;
    return null_fail(NOT_SUPPORTED);
}
