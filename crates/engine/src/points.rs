//! The named code points of the engine: each branch of recovery, each handling of a fault.

entresol_runtime::coverage_points! {
    CREATE_REFUSED_DISK = "create: refused, the disk needs its own cache";
    CLAIM_CUT_OFF = "create or open: a first use that was cut off is begun again";
    CLAIM_REFUSED = "create or open: refused, the device holds something else";
    OPEN_BLANK_REFUSED = "open: blank flash refused, the disk needs its cache";
    OPEN_BLANK_FORMATTED = "open: blank flash made a new cache";
    OPEN_FOREIGN_NEEDED = "open: other flash refused, the disk needs its own";
    OPEN_FOREIGN_DIRTY = "open: other flash refused, another disk needs it";
    OPEN_FOREIGN_EMPTIED = "open: other flash emptied";
    OPEN_DAMAGED_EMPTIED = "open: damaged write-through cache emptied";
    OPEN_COMPLETED = "open: an open that was cut off is completed first";
    SUPERBLOCK_DAMAGED = "open: a damaged superblock is passed by";
    LABEL_DAMAGED = "open: a damaged label is passed by";
    LABEL_DOUBLED = "open: the copies of the label are made the same";
    DISK_UNREADABLE = "read: a page on disk cannot be read and counts as damaged";
    READ_IN_PIECES = "read: a request that failed is repeated in pieces";
    DEVICE_UNREADABLE = "read: a device gives nothing back any more";
    SEGMENT_USED = "recover: a directory segment is used";
    SEGMENT_DAMAGED = "recover: a damaged segment, its groups' summaries are read";
    TORN_GROUP = "recover: a torn group counts as never written";
    TORN_PAGE = "recover: a torn page of a group written page by page";
    NO_SUMMARY = "recover: the last group has no summary, its pages' headers tell";
    REBUILT = "recover: a durable group without its summary, by its pages' headers";
    GROUP_DAMAGED = "recover: refused, summary and page of a durable group are damaged";
    GROUP_LOST = "recover: refused, the write of a durable group was lost";
    LEFTOVER = "recover: a leftover of an older epoch is ignored";
    SUMMARY_ERASED = "recover: a torn summary beyond the rear is erased";
    REPAIRED = "recover: summaries are repaired";
    UNSURE_DESTAGED = "recover: write-through copies to disk what is unsure";
    UNSURE_DAMAGED = "recover: refused, a page that only flash has is damaged";
    FETCH_MOVED = "fetch: the slot was given away during the read";
    FETCH_DAMAGED_CLEAN = "fetch: a damaged clean page is read from disk";
    FETCH_DAMAGED_DIRTY = "fetch: a damaged dirty page is reported";
    DEQUEUE_DAMAGED_CLEAN = "dequeue: a damaged clean page is dropped";
    DEQUEUE_DAMAGED_DIRTY = "dequeue: a damaged dirty page stops the tier";
    DEQUEUE_OVERTAKEN = "dequeue: a second chance is overtaken by a newer version";
    COPY_DAMAGED = "copy: a damaged page stops the tier";
    CHECKPOINT_FAILED = "checkpoint: failed, and the tier with it";
    SWITCHED_OFF = "failure: nothing is dirty, the tier switches itself off";
    POISONED = "failure: the tier stops";
    UNBIND_FAILED = "failure: the flash cannot be unbound, the tier stops";
    OFF_EVICT = "failure: switched off, a page goes to disk";
    OFF_FETCH = "failure: switched off, a page comes from disk";
    DIRECTORY_LOST = "slot directory: the device has lost an invalidation";
    DETACH_COPIED = "detach: a dirty page is copied to disk";
}
