#pragma once
/*
 * A queue, first in, first out, of structures that begin with a QueueLink:
 *
 *      typedef struct Job {
 *              QueueLink link;
 *              ...
 *      } Job;
 *      Job *job = queue_take(&queue);
 */
#include <stddef.h>

typedef struct QueueLink {
        struct QueueLink *next;
} QueueLink;

/* Zeros are an empty queue. */
typedef struct Queue {
        QueueLink *first, *last;
} Queue;

static inline void queue_append(Queue *queue, void *item) {
        QueueLink *link = item;

        link->next = NULL;
        if (queue->first)
                queue->last->next = link;
        else
                queue->first = link;
        queue->last = link;
}

/* The first item, which stays in the queue. NULL: the queue is empty. */
static inline void *queue_first(const Queue *queue) {
        return queue->first;
}

/* Removes the first item. NULL: the queue is empty. */
static inline void *queue_take(Queue *queue) {
        QueueLink *link = queue->first;

        if (link)
                queue->first = link->next;
        return link;
}

static inline void queue_move_all(Queue *to, Queue *from) {
        void *item;

        while ((item = queue_take(from)))
                queue_append(to, item);
}
