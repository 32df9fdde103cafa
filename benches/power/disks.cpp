// A file system in user space whose disks have volatile caches, and can lose power. In memory; lowlevel API of fuse3.
//
//     disks FOLDER        mounts on FOLDER; commands on standard input, an answer to each on standard output
//
// Each folder below the root is a disk: `data`, `log`, `flash`. All of them lose power at the same moment.
//
// What is durable: a sync of a file makes its pieces of 4 KiB durable, and all changes of names and lengths on its
// disk so far, which a journal has in their order. A power failure keeps of each disk a part of the journal from its
// beginning, and of each piece that was not synced the new content, the old one, or sectors of both. A write with
// O_SYNC or O_DSYNC is a write and a sync.
//
// Commands:
//     settle              everything is durable
//     arm N               power fails at the N-th write, sync or change of a name from now on; 0: at none
//     fail                power fails now
//     lose SEED           decides what is left, and forgets the rest; the disks still refuse everything
//     lie DISK            from now on its syncs do nothing
//     on                  the disks work again
//     count               operations since the start, whether power has failed, and what is not durable
//
// After a power failure every request gets EIO, so that nothing can be acknowledged.

#define FUSE_USE_VERSION 34
#include <fuse_lowlevel.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr uint64_t PIECE = 4096, SECTOR = 512;
using Piece = std::array<char, PIECE>;
using Content = std::unique_ptr<Piece>;  // none: zeros

struct Inode;
struct Disk;

// How a change of a name or a length is taken back.
struct Change {
    enum Kind { ENTRY, LENGTH } kind;
    Inode *node;                      // the folder, or the file
    std::string name;                 // ENTRY
    Inode *before = nullptr;          // ENTRY: what the name was, or nothing
    uint64_t length = 0, to = 0;      // LENGTH: the one before, and after
    std::map<uint64_t, Content> cut;  // LENGTH: pieces beyond the shorter length, as they were
    std::map<uint64_t, Content> cut_durable;
    bool joined = false;              // it is one with the change before it
};

struct Inode {
    fuse_ino_t number = 0;
    mode_t mode = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    uint64_t length = 0;
    timespec changed{};
    Disk *disk = nullptr;
    std::unordered_map<uint64_t, Content> pieces;
    std::unordered_map<uint64_t, Content> durable;  // of pieces that were written since the last sync
    std::map<std::string, Inode *> entries;
    std::string link;
    uint64_t names = 0, lookups = 0, undo = 0;  // what refers to it
};

struct Disk {
    std::vector<Change> journal;
    bool lies = false;
};

std::mutex all;
std::unordered_map<fuse_ino_t, Inode *> inodes;
fuse_ino_t next_number = 1;
Inode *root;
std::map<std::string, Disk> disks;
bool failed;
uint64_t operations, armed;

timespec now() {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t;
}

Inode *make(mode_t mode, uid_t uid, gid_t gid, Disk *disk) {
    Inode *node = new Inode;
    node->number = next_number++;
    node->mode = mode, node->uid = uid, node->gid = gid, node->disk = disk, node->changed = now();
    inodes[node->number] = node;
    return node;
}

void release(Inode *node) {
    if (node->names || node->lookups || node->undo || node == root) return;
    inodes.erase(node->number);
    delete node;
}

Inode *find(fuse_ino_t number) { return inodes.at(number == FUSE_ROOT_ID ? root->number : number); }

// Counts an operation that changes something. False: power fails before it.
bool operate() {
    if (failed) return false;
    ++operations;
    if (armed && operations >= armed) {
        failed = true;
        return false;
    }
    return true;
}

// Makes a change durable, or forgets one that was taken back.
void drop(Change &change) {
    change.node->undo--;
    if (change.before) change.before->undo--, release(change.before);
    release(change.node);
}

void sync_names(Disk *disk) {
    if (!disk) return;
    auto journal = std::move(disk->journal);
    disk->journal.clear();
    for (Change &change : journal) {
        // What was cut off does not come back, if the file gets longer again.
        for (auto &[at, piece] : change.cut) {
            auto durable = change.node->durable.find(at);
            if (durable == change.node->durable.end() || !durable->second) continue;
            if (at * PIECE >= change.to) durable->second = nullptr;
            else memset(durable->second->data() + change.to % PIECE, 0, PIECE - change.to % PIECE);
        }
        drop(change);
    }
}

void sync_file(Inode *node) {
    if (node->disk->lies) return;
    node->durable.clear();
    sync_names(node->disk);
}

// A piece is about to change.
Piece &touch(Inode *node, uint64_t at) {
    Content &piece = node->pieces[at];
    if (!node->durable.count(at)) node->durable[at] = piece ? std::make_unique<Piece>(*piece) : nullptr;
    if (!piece) piece = std::make_unique<Piece>(), piece->fill(0);
    return *piece;
}

void record(Disk *disk, Change change) {
    change.node->undo++;
    if (change.before) change.before->undo++;
    disk->journal.push_back(std::move(change));
}

void set_entry(Inode *folder, const std::string &name, Inode *to) {
    auto entry = folder->entries.find(name);
    Inode *before = entry == folder->entries.end() ? nullptr : entry->second;
    if (folder->disk) record(folder->disk, Change{Change::ENTRY, folder, name, before, 0, 0, {}, {}});
    if (before) before->names--;
    if (to) to->names++, folder->entries[name] = to;
    else folder->entries.erase(name);
    folder->changed = now();
}

void set_length(Inode *node, uint64_t length) {
    if (length == node->length) return;
    Change change{Change::LENGTH, node, "", nullptr, node->length, length, {}, {}};
    uint64_t first = std::min(length, node->length) / PIECE;
    if (length < node->length) {
        for (auto &[at, piece] : node->pieces)
            if (at >= first) change.cut[at] = piece ? std::make_unique<Piece>(*piece) : nullptr;
        for (auto &[at, piece] : change.cut) {
            auto durable = node->durable.find(at);
            if (durable != node->durable.end())
                change.cut_durable[at] = durable->second ? std::make_unique<Piece>(*durable->second) : nullptr;
            touch(node, at);
            if (at > first || length % PIECE == 0) node->pieces[at] = nullptr;
            else memset(node->pieces[at]->data() + length % PIECE, 0, PIECE - length % PIECE);
        }
    }
    node->length = length;
    record(node->disk, std::move(change));
}

void undo(Change &change) {
    Inode *node = change.node;
    if (change.kind == Change::ENTRY) {
        auto entry = node->entries.find(change.name);
        if (entry != node->entries.end()) entry->second->names--, node->entries.erase(entry);
        if (change.before) change.before->names++, node->entries[change.name] = change.before;
        return;
    }
    // What was written beyond an old end, which is the end again, is gone.
    if (change.length < node->length) {
        for (auto piece = node->pieces.begin(); piece != node->pieces.end();) {
            bool beyond = piece->first * PIECE >= change.length;
            piece = beyond ? node->pieces.erase(piece) : std::next(piece);
        }
        for (auto piece = node->durable.begin(); piece != node->durable.end();) {
            bool beyond = piece->first * PIECE >= change.length;
            piece = beyond ? node->durable.erase(piece) : std::next(piece);
        }
        if (change.length % PIECE) {
            uint64_t rest = change.length % PIECE;
            auto last = node->pieces.find(change.length / PIECE);
            if (last != node->pieces.end() && last->second) memset(last->second->data() + rest, 0, PIECE - rest);
        }
    }
    node->length = change.length;
    for (auto &[at, piece] : change.cut) {
        node->pieces[at] = std::move(piece);
        node->durable.erase(at);
    }
    change.cut.clear();
    for (auto &[at, piece] : change.cut_durable) node->durable[at] = std::move(piece);
}

std::string lose(uint64_t seed) {
    std::mt19937_64 random(seed);
    auto part = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
    uint64_t undone = 0, changes = 0, kept = 0, lost = 0, torn = 0;
    for (auto &[name, disk] : disks) {
        auto &journal = disk.journal;
        changes += journal.size();
        double how = part();
        size_t keep = how < .25 ? 0 : how < .5 ? journal.size() : size_t(part() * double(journal.size() + 1));
        while (keep < journal.size() && journal[keep].joined) keep++;
        while (journal.size() > keep) {
            undone++;
            undo(journal.back());
            drop(journal.back());
            journal.pop_back();
        }
        sync_names(&disk);
    }
    std::map<Disk *, double> keeps;
    for (auto &[name, disk] : disks) {
        const double choices[] = {0, .1, .5, .9, 1};
        keeps[&disk] = choices[random() % 5];
    }
    std::vector<fuse_ino_t> numbers;
    for (auto &[number, node] : inodes) numbers.push_back(number);
    std::sort(numbers.begin(), numbers.end());
    for (auto number : numbers) {
        Inode *node = inodes[number];
        std::vector<uint64_t> places;
        for (auto &[at, piece] : node->durable) places.push_back(at);
        std::sort(places.begin(), places.end());
        for (uint64_t at : places) {
            Content &before = node->durable[at];
            Content &after = node->pieces[at];
            if (part() < .1) {
                Piece mixed{};
                for (uint64_t sector = 0; sector < PIECE / SECTOR; sector++) {
                    Content &from = random() % 2 ? after : before;
                    if (from) memcpy(mixed.data() + sector * SECTOR, from->data() + sector * SECTOR, SECTOR);
                }
                after = std::make_unique<Piece>(mixed);
                torn++;
            } else if (part() < keeps[node->disk]) {
                kept++;
            } else {
                after = std::move(before);
                lost++;
            }
        }
        node->durable.clear();
        // Nothing is beyond the end.
        for (auto piece = node->pieces.begin(); piece != node->pieces.end();)
            piece = piece->first * PIECE >= node->length ? node->pieces.erase(piece) : std::next(piece);
        if (node->length % PIECE) {
            auto last = node->pieces.find(node->length / PIECE);
            uint64_t rest = node->length % PIECE;
            if (last != node->pieces.end() && last->second) memset(last->second->data() + rest, 0, PIECE - rest);
        }
    }
    for (auto number : numbers) release(inodes[number]);
    std::ostringstream said;
    said << "changes " << changes << " undone " << undone << " kept " << kept << " lost " << lost << " torn " << torn;
    return said.str();
}

void settle() {
    for (auto &[name, disk] : disks) sync_names(&disk);
    for (auto &[number, node] : inodes) node->durable.clear();
}

struct stat attributes(Inode *node) {
    struct stat s{};
    s.st_ino = node->number;
    s.st_mode = node->mode;
    s.st_nlink = S_ISDIR(node->mode) ? 2 : node->names;
    s.st_uid = node->uid, s.st_gid = node->gid;
    s.st_size = S_ISLNK(node->mode) ? node->link.size() : node->length;
    s.st_blocks = (node->length + 511) / 512;
    s.st_blksize = PIECE;
    s.st_mtim = s.st_ctim = s.st_atim = node->changed;
    return s;
}

fuse_entry_param entry(Inode *node) {
    fuse_entry_param e{};
    e.ino = node->number;
    e.attr = attributes(node);
    node->lookups++;
    return e;
}

using Lock = std::lock_guard<std::mutex>;
#define ALIVE(request) \
    Lock lock(all);    \
    if (failed) return void(fuse_reply_err(request, EIO))
#define CHANGES(request) \
    Lock lock(all);      \
    if (!operate()) return void(fuse_reply_err(request, EIO))

void on_init(void *, fuse_conn_info *connection) {
    connection->want &= ~(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    ALIVE(request);
    Inode *folder = find(parent);
    auto at = folder->entries.find(name);
    if (at == folder->entries.end()) return void(fuse_reply_err(request, ENOENT));
    auto e = entry(at->second);
    fuse_reply_entry(request, &e);
}

void forget(fuse_ino_t number, uint64_t times) {
    auto at = inodes.find(number == FUSE_ROOT_ID ? root->number : number);
    if (at == inodes.end()) return;
    at->second->lookups -= std::min(at->second->lookups, times);
    release(at->second);
}

void on_forget(fuse_req_t request, fuse_ino_t number, uint64_t times) {
    Lock lock(all);
    forget(number, times);
    fuse_reply_none(request);
}

void on_forget_multi(fuse_req_t request, size_t count, fuse_forget_data *forgets) {
    Lock lock(all);
    for (size_t at = 0; at < count; at++) forget(forgets[at].ino, forgets[at].nlookup);
    fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info *) {
    ALIVE(request);
    auto s = attributes(find(number));
    fuse_reply_attr(request, &s, 0);
}

void on_setattr(fuse_req_t request, fuse_ino_t number, struct stat *to, int which, fuse_file_info *) {
    CHANGES(request);
    Inode *node = find(number);
    if (which & FUSE_SET_ATTR_MODE) node->mode = (node->mode & S_IFMT) | (to->st_mode & ~S_IFMT);
    if (which & FUSE_SET_ATTR_UID) node->uid = to->st_uid;
    if (which & FUSE_SET_ATTR_GID) node->gid = to->st_gid;
    if (which & FUSE_SET_ATTR_SIZE) set_length(node, to->st_size);
    if (which & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW | FUSE_SET_ATTR_SIZE)) node->changed = now();
    auto s = attributes(node);
    fuse_reply_attr(request, &s, 0);
}

void on_readlink(fuse_req_t request, fuse_ino_t number) {
    ALIVE(request);
    fuse_reply_readlink(request, find(number)->link.c_str());
}

// A new node with a name. Its disk is that of the folder.
Inode *named(fuse_req_t request, Inode *folder, const char *name, mode_t mode) {
    const fuse_ctx *caller = fuse_req_ctx(request);
    Disk *disk = folder->disk;
    if (folder == root) disk = &disks[name];
    Inode *node = make(mode, caller->uid, caller->gid, disk);
    set_entry(folder, name, node);
    return node;
}

void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode) {
    CHANGES(request);
    Inode *folder = find(parent);
    if (folder->entries.count(name)) return void(fuse_reply_err(request, EEXIST));
    auto e = entry(named(request, folder, name, S_IFDIR | mode));
    fuse_reply_entry(request, &e);
}

void on_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t) {
    CHANGES(request);
    Inode *folder = find(parent);
    if (!folder->disk) return void(fuse_reply_err(request, EPERM));
    if (folder->entries.count(name)) return void(fuse_reply_err(request, EEXIST));
    auto e = entry(named(request, folder, name, mode));
    fuse_reply_entry(request, &e);
}

void on_symlink(fuse_req_t request, const char *link, fuse_ino_t parent, const char *name) {
    CHANGES(request);
    Inode *folder = find(parent);
    if (!folder->disk) return void(fuse_reply_err(request, EPERM));
    if (folder->entries.count(name)) return void(fuse_reply_err(request, EEXIST));
    Inode *node = named(request, folder, name, S_IFLNK | 0777);
    node->link = link;
    auto e = entry(node);
    fuse_reply_entry(request, &e);
}

void remove(fuse_req_t request, fuse_ino_t parent, const char *name, bool is_folder) {
    CHANGES(request);
    Inode *folder = find(parent);
    auto at = folder->entries.find(name);
    if (at == folder->entries.end()) return void(fuse_reply_err(request, ENOENT));
    if (is_folder != bool(S_ISDIR(at->second->mode)))
        return void(fuse_reply_err(request, is_folder ? ENOTDIR : EISDIR));
    if (!at->second->entries.empty()) return void(fuse_reply_err(request, ENOTEMPTY));
    set_entry(folder, name, nullptr);
    fuse_reply_err(request, 0);
}

void on_unlink(fuse_req_t request, fuse_ino_t parent, const char *name) { remove(request, parent, name, false); }
void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name) { remove(request, parent, name, true); }

void on_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t to, const char *new_name,
               unsigned flags) {
    CHANGES(request);
    Inode *from = find(parent), *into = find(to);
    if (from->disk != into->disk || !from->disk) return void(fuse_reply_err(request, EXDEV));
    auto at = from->entries.find(name);
    if (at == from->entries.end()) return void(fuse_reply_err(request, ENOENT));
    auto there = into->entries.find(new_name);
    if (flags & 2) return void(fuse_reply_err(request, EINVAL));
    if (there != into->entries.end()) {
        if (flags & 1) return void(fuse_reply_err(request, EEXIST));
        if (!there->second->entries.empty()) return void(fuse_reply_err(request, ENOTEMPTY));
    }
    Inode *node = at->second;
    if (there != into->entries.end() && there->second == node) return void(fuse_reply_err(request, 0));
    // Both names change at once.
    set_entry(into, new_name, node);
    set_entry(from, name, nullptr);
    from->disk->journal.back().joined = true;
    fuse_reply_err(request, 0);
}

void on_open(fuse_req_t request, fuse_ino_t, fuse_file_info *file) {
    ALIVE(request);
    file->direct_io = 1;
    fuse_reply_open(request, file);
}

void on_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, fuse_file_info *file) {
    CHANGES(request);
    Inode *folder = find(parent);
    if (!folder->disk) return void(fuse_reply_err(request, EPERM));
    if (folder->entries.count(name)) return void(fuse_reply_err(request, EEXIST));
    auto e = entry(named(request, folder, name, mode));
    file->direct_io = 1;
    fuse_reply_create(request, &e, file);
}

void on_read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info *) {
    std::vector<char> bytes;
    {
        ALIVE(request);
        Inode *node = find(number);
        uint64_t from = offset, end = std::min<uint64_t>(from + size, node->length);
        if (from < end) bytes.resize(end - from);
        for (uint64_t at = from; at < end;) {
            uint64_t within = at % PIECE, part = std::min(PIECE - within, end - at);
            auto piece = node->pieces.find(at / PIECE);
            if (piece != node->pieces.end() && piece->second)
                memcpy(bytes.data() + (at - from), piece->second->data() + within, part);
            at += part;
        }
    }
    fuse_reply_buf(request, bytes.data(), bytes.size());
}

void on_write(fuse_req_t request, fuse_ino_t number, const char *bytes, size_t size, off_t offset,
              fuse_file_info *file) {
    Lock lock(all);
    if (failed) return void(fuse_reply_err(request, EIO));
    // The write at which power fails may be on the disk, or some of it.
    bool lives = operate();
    Inode *node = find(number);
    uint64_t from = offset, end = from + size;
    if (end > node->length) set_length(node, end);
    for (uint64_t at = from; at < end;) {
        uint64_t within = at % PIECE, part = std::min(PIECE - within, end - at);
        memcpy(touch(node, at / PIECE).data() + within, bytes + (at - from), part);
        at += part;
    }
    node->changed = now();
    if (!lives) return void(fuse_reply_err(request, EIO));
    if (file->flags & (O_SYNC | O_DSYNC)) {
        if (!operate()) return void(fuse_reply_err(request, EIO));
        sync_file(node);
    }
    fuse_reply_write(request, size);
}

void on_fsync(fuse_req_t request, fuse_ino_t number, int, fuse_file_info *) {
    CHANGES(request);
    sync_file(find(number));
    fuse_reply_err(request, 0);
}

void on_fsyncdir(fuse_req_t request, fuse_ino_t number, int, fuse_file_info *) {
    CHANGES(request);
    Disk *disk = find(number)->disk;
    if (disk && !disk->lies) sync_names(disk);
    fuse_reply_err(request, 0);
}

void on_fallocate(fuse_req_t request, fuse_ino_t number, int mode, off_t offset, off_t length, fuse_file_info *) {
    CHANGES(request);
    Inode *node = find(number);
    uint64_t from = offset, end = from + length;
    if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        return void(fuse_reply_err(request, EOPNOTSUPP));
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        for (uint64_t at = from; at < std::min(end, node->length);) {
            uint64_t within = at % PIECE, part = std::min(PIECE - within, end - at);
            memset(touch(node, at / PIECE).data() + within, 0, part);
            at += part;
        }
    }
    if (!(mode & FALLOC_FL_KEEP_SIZE) && end > node->length) set_length(node, end);
    fuse_reply_err(request, 0);
}

void on_readdir(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info *file) {
    ALIVE(request);
    // The names as they were when the folder was opened: it may change between two reads.
    auto *names = reinterpret_cast<std::vector<std::pair<std::string, struct stat>> *>(file->fh);
    (void)number;
    std::vector<char> bytes(size);
    size_t used = 0;
    for (size_t at = offset; at < names->size(); at++) {
        auto &[name, s] = (*names)[at];
        size_t needs = fuse_add_direntry(request, bytes.data() + used, size - used, name.c_str(), &s, at + 1);
        if (needs > size - used) break;
        used += needs;
    }
    fuse_reply_buf(request, bytes.data(), used);
}

void on_opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info *file) {
    ALIVE(request);
    Inode *folder = find(number);
    auto *names = new std::vector<std::pair<std::string, struct stat>>;
    names->push_back({".", attributes(folder)});
    names->push_back({"..", attributes(folder)});
    for (auto &[name, node] : folder->entries) names->push_back({name, attributes(node)});
    file->fh = reinterpret_cast<uint64_t>(names);
    fuse_reply_open(request, file);
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info *file) {
    delete reinterpret_cast<std::vector<std::pair<std::string, struct stat>> *>(file->fh);
    fuse_reply_err(request, 0);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
    struct statvfs s{};
    s.f_bsize = s.f_frsize = PIECE;
    s.f_blocks = s.f_bfree = s.f_bavail = 16ull << 20;
    s.f_files = s.f_ffree = s.f_favail = 1 << 20;
    s.f_namemax = 255;
    fuse_reply_statfs(request, &s);
}

void commands(fuse_session *session) {
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        std::istringstream words(line);
        std::string command, answer = "done";
        std::string word;
        words >> command >> word;
        uint64_t number = strtoull(word.c_str(), nullptr, 10);
        {
            Lock lock(all);
            if (command == "settle") settle();
            else if (command == "arm") armed = number ? operations + number : 0;
            else if (command == "fail") failed = true;
            else if (command == "lose") armed = 0, failed = true, answer = lose(number);
            else if (command == "on") armed = 0, failed = false;
            else if (command == "lie" && disks.count(word)) disks[word].lies = true;
            else if (command == "count") {
                uint64_t changes = 0, pieces = 0;
                for (auto &[name, disk] : disks) changes += disk.journal.size();
                for (auto &[at, node] : inodes) pieces += node->durable.size();
                std::ostringstream said;
                said << operations << " " << failed << " " << changes << " " << pieces << " " << inodes.size();
                answer = said.str();
            } else answer = "unknown";
        }
        printf("%s\n", answer.c_str());
        fflush(stdout);
    }
    fuse_session_unmount(session);
    _exit(0);
}

}  // namespace

int main(int count, char **words) {
    if (count != 2) return fprintf(stderr, "disks FOLDER\n"), 2;
    root = make(S_IFDIR | 0755, 0, 0, nullptr);
    root->names = 1;
    fuse_lowlevel_ops calls{};
    calls.init = on_init;
    calls.lookup = on_lookup;
    calls.forget = on_forget;
    calls.forget_multi = on_forget_multi;
    calls.getattr = on_getattr;
    calls.setattr = on_setattr;
    calls.readlink = on_readlink;
    calls.mkdir = on_mkdir;
    calls.mknod = on_mknod;
    calls.symlink = on_symlink;
    calls.unlink = on_unlink;
    calls.rmdir = on_rmdir;
    calls.rename = on_rename;
    calls.open = on_open;
    calls.create = on_create;
    calls.read = on_read;
    calls.write = on_write;
    calls.fsync = on_fsync;
    calls.fsyncdir = on_fsyncdir;
    calls.fallocate = on_fallocate;
    calls.opendir = on_opendir;
    calls.readdir = on_readdir;
    calls.releasedir = on_releasedir;
    calls.statfs = on_statfs;
    char options[] = "allow_other,default_permissions,fsname=three-disks";
    char *arguments[] = {words[0], const_cast<char *>("-o"), options, nullptr};
    fuse_args args = FUSE_ARGS_INIT(3, arguments);
    fuse_session *session = fuse_session_new(&args, &calls, sizeof calls, nullptr);
    if (!session || fuse_session_mount(session, words[1])) return 1;
    std::thread(commands, session).detach();
    fuse_loop_config config{};
    config.clone_fd = 0;
    config.max_idle_threads = 10;
    return fuse_session_loop_mt(session, &config) != 0;
}
