/* Streams and events: everything is complete at once, or after the time that a timed card needs for
 * it, but who comes before whom is kept.
 *
 * The order is a vector clock. Each operation counts one up in its stream; an event holds the clock
 * of its stream, a wait for it takes the larger of both, and so does the host when it waits.
 */
#define _GNU_SOURCE
#include "nullcard.h"

#include <stdlib.h>
#include <time.h>

#define NON_BLOCKING 1    /* cudaStreamNonBlocking */
#define DISABLE_TIMING 2  /* cudaEventDisableTiming */
#define EXTERNAL 1        /* cudaEventRecordExternal, cudaEventWaitExternal */

struct event {
    unsigned flags;
    int recorded;
    double at;          /* ms of the host's monotonic clock: when the work before it is done */
    uint64_t capture;   /* 0, or the capture in which it was last recorded */
    struct clock before;
};

/* Stream 0 is the legacy default stream, 1 is the one of cudaStreamPerThread (of all threads here). */
static struct stream streams[MAX_STREAMS] = {{.index = 0, .alive = 1}, {.index = 1, .alive = 1}};
static int used = 2;
static struct clock host;
#define QUEUE 1024
static double ends[MAX_STREAMS][QUEUE]; /* when the last operations of each stream end */

struct stream *null_streams(int *count) { return *count = used, streams; }

/* API: handles 0 and 1 are the legacy stream, 2 is cudaStreamPerThread. */
struct stream *null_stream(const void *handle) {
    uintptr_t number = (uintptr_t)handle;
    if (number <= 1) return &streams[0];
    if (number == 2) return &streams[1];
    struct stream *stream = (struct stream *)handle;
    int known = stream > streams + 1 && stream < streams + used && stream->alive;
    return known ? stream : NULL;
}
void null_merge(struct clock *into, const struct clock *from) {
    for (int i = 0; i < used; i++)
        if (into->seen[i] < from->seen[i]) into->seen[i] = from->seen[i];
    if (into->until < from->until) into->until = from->until;
}
void null_wait(const char *call, const struct clock *until) {
    struct counter *counter = null_counter(WAIT, call);
    int idle = 1;
    for (int i = 0; i < used; i++) idle &= host.seen[i] >= until->seen[i];
    if (idle) counter->replayed++;
    else counter->launched++, nullcard_waited++;
    null_merge(&host, until);
    null_sleep(until->until);
}
void null_wait_for_all(const char *call) {
    struct clock all = {.until = 0};
    for (int i = 0; i < used; i++) null_merge(&all, &streams[i].before);
    null_wait(call, &all);
}

/* Guide, "Legacy default stream": it and each blocking stream wait for each other. */
static int blocking(const struct stream *stream) { return !(stream->flags & NON_BLOCKING); }
static void order(struct stream *stream) {
    null_merge(&stream->before, &host);
    for (int i = 1; stream->index == 0 && i < used; i++)
        if (streams[i].alive && blocking(&streams[i])) null_merge(&stream->before, &streams[i].before);
    if (stream->index > 0 && blocking(stream)) null_merge(&stream->before, &streams[0].before);
}
/* API, cudaErrorStreamCaptureImplicit: work for the legacy stream while a blocking stream captures. */
static int legacy_allowed(const struct stream *stream) {
    if (stream->index || !null_capture_blocks_legacy()) return SUCCESS;
    null_invalidate_all();
    return CAPTURE_IMPLICIT;
}
/* A launch waits while the card has QUEUE operations of its stream to do. The limit of a driver is not
 * documented; 1024 is assumed, so that the host cannot run ahead without end. */
static void take_time(struct stream *stream, double ms) {
    double *oldest = &ends[stream->index][stream->work % QUEUE];
    null_sleep(*oldest);
    double now = null_now(), *until = &stream->before.until;
    *until = (*until < now ? now : *until) + ms;
    stream->busy += ms;
    *oldest = *until;
}
int null_submit(const void *handle, struct counter *counter, double ms) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    int status = null_ready();
    if (!status && !stream) status = INVALID_HANDLE;
    if (!status) status = legacy_allowed(stream);
    if (status) return null_fail(status);
    if (stream->capture) {
        status = null_record_node(stream->capture, counter, ms);
        if (status) return null_fail(status);
    } else {
        order(stream);
        if (counter) counter->launched++, nullcard_launched++;
        if (ms > 0) take_time(stream, ms);
    }
    stream->before.seen[stream->index] = ++stream->work;
    return SUCCESS;
}

/* How many ms the streams have worked until now; at most one of them works at a time, as a rule. */
double nullcard_worked_ms(void) {
    LOCKED;
    double now = null_now(), sum = 0;
    for (int i = 0; i < used; i++) {
        double left = streams[i].before.until - now;
        sum += streams[i].busy - (left > 0 ? left : 0);
    }
    return sum;
}
/* For tests: 1 if all work given to `first` comes before whatever `second` is given next. */
int nullcard_ordered(const void *first, const void *second) {
    LOCKED;
    const struct stream *one = null_stream(first);
    struct stream *two = null_stream(second);
    if (!one || !two) return -1;
    order(two);
    return two->before.seen[one->index] >= one->work;
}

/* ---- streams ---- */

int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    LOCKED;
    int status = null_ready(), i = 2;
    if (status) return null_fail(status);
    while (i < used && streams[i].alive) i++;
    if (i == MAX_STREAMS) return null_fail(OUT_OF_MEMORY); /* of this library, not of a card */
    if (i == used) used++;
    uint64_t work = streams[i].work; /* goes on, for clocks remember it */
    streams[i] = (struct stream){.index = i, .alive = 1, .flags = flags, .priority = priority, .work = work};
    streams[i].before.seen[i] = work;
    return *out = &streams[i], SUCCESS;
}
int cudaStreamCreateWithFlags(void **out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
int cudaStreamCreate(void **out) { return cudaStreamCreateWithPriority(out, 0, 0); }
/* API: returns at once, the work goes on. A stream that captures invalidates its capture. */
int cudaStreamDestroy(void *handle) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    if (!stream || stream->index < 2) return null_fail(INVALID_HANDLE);
    if (stream->capture) null_invalidate(stream->capture, CAPTURE_INVALIDATED);
    stream->alive = 0;
    return SUCCESS;
}
int cudaStreamGetPriority(void *handle, int *priority) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    if (!stream) return null_fail(INVALID_HANDLE);
    return *priority = stream->priority, SUCCESS;
}
/* API: the numerically lower number is the higher priority. -5 is what cards since Ampere answer. */
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return SUCCESS;
}
/* Guide, "Prohibited and unhandled operations" of stream capture: to synchronise or query a stream
 * that is being captured is invalid, and invalidates the capture. For another stream while somebody
 * captures we hold the rule of "potentially unsafe" calls; the reference does not name them all. */
static int may_ask(const struct stream *stream) {
    if (!stream) return INVALID_HANDLE;
    if (stream->capture) return null_invalidate(stream->capture, CAPTURE_UNSUPPORTED);
    return null_unsafe();
}
int cudaStreamSynchronize(void *handle) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    int status = may_ask(stream);
    if (!status) null_wait("cudaStreamSynchronize", &stream->before);
    return null_fail(status);
}
static int is_done(const struct clock *before) { return before->until <= null_now() ? SUCCESS : NOT_READY; }
int cudaStreamQuery(void *handle) {
    LOCKED;
    totals.queries++;
    struct stream *stream = null_stream(handle);
    int status = may_ask(stream);
    return null_fail(status ? status : is_done(&stream->before));
}
/* Guide, the same section: also for a handle that encompasses a capture, such as the device. */
int cudaDeviceSynchronize(void) {
    LOCKED;
    int status = null_ready();
    if (!status) status = null_invalidate_all();
    if (!status) null_wait_for_all("cudaDeviceSynchronize");
    return null_fail(status);
}

/* ---- events ---- */

int cudaEventCreateWithFlags(void **out, unsigned flags) {
    if (null_ready()) return null_fail(INITIALIZATION);
    struct event *event = calloc(1, sizeof *event);
    event->flags = flags;
    return *out = event, SUCCESS;
}
int cudaEventCreate(void **out) { return cudaEventCreateWithFlags(out, 0); }
int cudaEventDestroy(void *event) { return free(event), SUCCESS; }

/* API: the event holds the work of the stream at this call; in a capture it belongs to that. */
int cudaEventRecordWithFlags(void *handle, void *stream_handle, unsigned flags) {
    LOCKED;
    struct event *event = handle;
    struct stream *stream = null_stream(stream_handle);
    if (!event || !stream) return null_fail(INVALID_HANDLE);
    int status = legacy_allowed(stream);
    if (!status && stream->capture && null_is_invalid(stream->capture)) status = CAPTURE_INVALIDATED;
    if (status) return null_fail(status);
    event->recorded = 1;
    event->capture = stream->capture && !(flags & EXTERNAL) ? null_capture_id(stream->capture) : 0;
    if (!stream->capture) order(stream);
    event->before = stream->before;
    event->at = null_now();
    if (event->at < event->before.until) event->at = event->before.until;
    totals.events_recorded++;
    return SUCCESS;
}
int cudaEventRecord(void *event, void *stream) { return cudaEventRecordWithFlags(event, stream, 0); }

/* API, cudaErrorCapturedEvent: not permitted on an event last recorded in a capturing stream. On
 * another event it is "potentially unsafe" (cudaThreadExchangeStreamCaptureMode names this call). */
static int may_ask_event(const struct event *event) {
    if (!event) return INVALID_HANDLE;
    if (!event->capture) return null_unsafe();
    struct capture *capture = null_capture(event->capture);
    if (capture) null_invalidate(capture, CAPTURED_EVENT);
    return CAPTURED_EVENT;
}
int cudaEventQuery(void *handle) { /* SUCCESS also for one that was never recorded */
    struct event *event = handle;
    LOCKED;
    totals.queries++;
    int status = may_ask_event(event);
    return null_fail(status || !event->recorded ? status : is_done(&event->before));
}
int cudaEventSynchronize(void *handle) {
    LOCKED;
    struct event *event = handle;
    int status = may_ask_event(event);
    if (!status) null_wait("cudaEventSynchronize", &event->before);
    return null_fail(status);
}
/* API: cudaErrorInvalidResourceHandle if one was not recorded or was made without timing. The time
 * is that between the two calls on the host where no kernel takes any. */
int cudaEventElapsedTime(float *ms, void *from, void *to) {
    LOCKED;
    struct event *start = from, *end = to;
    if (!start || !end || !start->recorded || !end->recorded) return null_fail(INVALID_HANDLE);
    if ((start->flags | end->flags) & DISABLE_TIMING) return null_fail(INVALID_HANDLE);
    if (start->capture || end->capture) return null_fail(CAPTURED_EVENT);
    if (is_done(&end->before)) return null_fail(NOT_READY);
    return *ms = (float)(end->at - start->at), SUCCESS;
}

/* Guide, "Cross-stream dependencies and events": to wait for an event of a capture takes the stream
 * into that capture. Two captures cannot meet (cudaErrorStreamCaptureMerge), a capture cannot depend
 * on work outside it (cudaErrorStreamCaptureIsolation), the legacy stream cannot join
 * (cudaErrorStreamCaptureImplicit). An event that was never recorded is no dependency. */
static int wait_under_capture(struct stream *stream, const struct event *event) {
    struct capture *capture = null_capture(event->capture);
    if (!event->capture) return null_invalidate(stream->capture, CAPTURE_ISOLATION);
    if (!capture) return CAPTURED_EVENT; /* that capture is over */
    if (null_is_invalid(capture)) return CAPTURE_INVALIDATED;
    if (stream->index == 0) return null_invalidate(capture, CAPTURE_IMPLICIT);
    if (stream->capture && stream->capture != capture) {
        null_invalidate(stream->capture, CAPTURE_MERGE);
        return null_invalidate(capture, CAPTURE_MERGE);
    }
    if (!stream->capture) null_join(stream, capture);
    return SUCCESS;
}
int cudaStreamWaitEvent(void *handle, void *event_handle, unsigned flags) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    struct event *event = event_handle;
    if (!stream || !event) return null_fail(INVALID_HANDLE);
    totals.event_waits++;
    if (!event->recorded || (stream->capture && (flags & EXTERNAL))) return SUCCESS;
    if (stream->capture || event->capture) {
        int status = wait_under_capture(stream, event);
        if (status) return null_fail(status);
    }
    null_merge(&stream->before, &event->before);
    return SUCCESS;
}
