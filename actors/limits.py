"""Every number of the actor layer, with its reason, and asserts that relate them."""

from __future__ import annotations

from typing import Final

# How long staging may hold the event loop before the batch is cut.
STAGING_S_MAX: Final = 0.005

# How long nobody else must have written before appends are staged without reading the journal first.
ALONE_S: Final = 1.0

# Rows of other processes that are applied in one go: about a millisecond.
FOLLOW_SLICE: Final = 64

# SQLite was busy with somebody's checkpoint transaction, which is one sync long.
BUSY_PAUSE_S: Final = 0.001

# Checkpoint: soon after work stops, at the latest after half a minute or this much text in rows.
CHECKPOINT_IDLE_S: Final = 2.0
CHECKPOINT_LATEST_S: Final = 30.0
CHECKPOINT_BYTES: Final = 4 << 20
CHECKPOINT_RETRY_S_MAX: Final = 60.0

# How often a lock of Pi is looked at, and how long one may stay empty (store 2.1.4, 2.1.5).
PI_POLL_S: Final = 0.025
PI_PENDING_S: Final = 2.0

# How often a survivor looks whether the process that Pi's lock names still lives.
PI_GUARD_S: Final = 2.0

# How far the journal may grow while the canonical files can not be written.
JOURNAL_BYTES_MAX: Final = 256 << 20

# Watching. How often a journal is looked at where no bell rings; watchers learn of other processes that late.
POLL_BEAT_S: Final = 0.1

# After a ring: the least and the greatest pause between two looks, and how long a sync is waited for in this way.
LOOK_PAUSE_S_MIN: Final = 0.001
LOOK_PAUSE_S_MAX: Final = 0.1
RING_ECHO_S: Final = 1.0

# How long the bell is kept when nobody waits any more. Closing inotify may take the kernel milliseconds.
BELL_LINGER_S: Final = 5.0

# A mailbox holds four full batches: senders feel back-pressure long before memory does, and an actor that is busy
# with one batch finds the next ones ready.
MAILBOX_CAPACITY: Final = 1024

# What an actor takes at once. Amortises one sync over many commits, yet staging it stays within milliseconds.
BATCH_MAX: Final = 256

# A fault that three fresh starts in half a minute do not cure will not be cured by a fourth.
RESTARTS_DEFAULT: Final = 3
RESTART_WINDOW_S: Final = 30.0

# The first restart is immediate: most crashes are one-off. Then 50 ms, doubled each time, so that a crash loop
# neither spins nor keeps callers waiting for long.
RESTART_DELAY_FIRST_S: Final = 0.05
RESTART_DELAY_S_MAX: Final = 1.0

# How long a child may drain what it accepted before it is cancelled.
SHUTDOWN_S: Final = 5.0

# Supervisors may be nested once (a runtime inside a host's tree); restarts multiply over the levels.
SUPERVISOR_LEVELS_MAX: Final = 2
RESTARTS_PRODUCT_MAX: Final = 16

assert 0 < BATCH_MAX <= MAILBOX_CAPACITY
# Watchers are promised to learn of other processes within 100 ms, by whichever way.
assert LOOK_PAUSE_S_MIN < LOOK_PAUSE_S_MAX <= POLL_BEAT_S <= 0.1 < RING_ECHO_S
assert (RESTARTS_DEFAULT + 1) ** SUPERVISOR_LEVELS_MAX <= RESTARTS_PRODUCT_MAX
# A crash loop must use up its budget: all its delays together stay inside the window.
assert RESTARTS_DEFAULT * RESTART_DELAY_S_MAX < RESTART_WINDOW_S
assert 0 < RESTART_DELAY_FIRST_S <= RESTART_DELAY_S_MAX
# A child that waits to be restarted notices a stop before its shutdown time is over.
assert RESTART_DELAY_S_MAX < SHUTDOWN_S

# Backups (store 5.2.10, 5.4.5): how long one call of Git may take.
GIT_LIMIT_S: Final = 15.0

# How long an ended program may take to clean up after SIGTERM, and how long ending it takes in all.
TERM_GRACE_S: Final = 2.0
ENDING_S: Final = 4.5

# How many checkpoints a backup asks for until one leaves no file ahead of the others.
CAPTURE_ROUNDS_MAX: Final = 20

# A backup by itself does not queue up behind others; it only lets whoever is just finishing finish.
BACKUP_PATIENCE_S: Final = 0.25

# How often all files are looked at, and not only those that the journal knows to have changed.
COMPLETE_LOOK_S: Final = 24 * 3600.0

# Moving a branch and telling the index must both happen, or neither, also for whoever is just cancelled: each of them.
COMMIT_SHIELD_S: Final = 2.0

assert TERM_GRACE_S < ENDING_S < SHUTDOWN_S
assert COMMIT_SHIELD_S < SHUTDOWN_S
