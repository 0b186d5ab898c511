// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The store: a thread of rank 0 with a TCP connection to every rank. It gathers the ranks,
// exchanges small values, notices at once when a process ends and within the deadline when one is
// stopped, and says to all which rank is lost and where the others wait.
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/system/socket.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct message_kind {
  enum : std::uint32_t {
    // of a rank to the store
    hello = message_magic + 1,  // who it is
    part,                       // its part of an exchange
    state,                      // how far it is
    fail,                       // a text: it cannot go on
    leave,                      // its communicator ends; a text: by an exception
    regroup,                    // it is ready for a new group
    // of the store to a rank
    accepted,  // the hello is right; the others have not come yet
    refused,   // a text; for_good: waiting does not help
    group,     // all have come: its number, size and ranks
    whole,     // the parts of all ranks
    beat,      // the store is alive; how many newcomers wait
    left,      // a rank's communicator has ended in good order; how far it was
    ask,       // a rank is lost: answer with a state at once
    lost       // the report, and which ranks are lost
  };
};

enum class collective : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  send,
  receive
};

/// A collective that a rank has called.
struct collective_call {
  std::uint64_t number;  // from 1, of the communicator; 0: none
  std::uint64_t count;   // elements
  std::uint64_t bytes;   // of the larger buffer
  collective operation;
  std::uint8_t type;       // an ncclDataType_t
  std::uint8_t reduction;  // an ncclRedOp_t
  std::uint8_t captured;   // recorded in a graph, where each replay runs it
  std::int32_t root;       // or the peer
};

/// How far a rank is.
struct rank_state {
  std::uint64_t called;     // the last collective
  std::uint64_t completed;  // all up to it have completed, as far as is known
  std::uint64_t replay;     // 1: a replay of a graph is under way
  std::uint64_t replays;    // that have ended
  collective_call last;
  collective_call waits;  // the one behind `completed`; number 0: none
};

/// A rank's process.
struct rank_process {
  std::int32_t rank;
  std::int32_t pid;
  char host[56];
};

struct hello_message {
  std::uint32_t version;
  std::int32_t rank, ranks, pid;
  std::uint64_t nonce;
  std::uint64_t joins;  // 1: a newcomer, which has no rank yet
  char host[56];
};

inline constexpr std::uint64_t milliseconds = 1000000U;  // in ns
inline constexpr std::uint32_t store_version = 1;
inline constexpr std::uint64_t no_exchange = 0, for_good = 1;
inline constexpr std::uint64_t regrouping = ~std::uint64_t{0}, hanging = regrouping - 1;

/// What a client knows of its group, in the message `group` followed by `ranks` rank_process.
struct group_message {
  std::uint64_t number;
  std::int32_t rank, ranks;
};

/// The side of rank 0.
class store_server : noncopyable {
 public:
  /// Starts to listen. @throws communicator_error
  store_server(socket_handle&& listener, int ranks, std::uint64_t nonce, double deadline,
               source_location where);
  /// Ends when reports and answers have been sent, at the latest after 2 s.
  ~store_server();

 private:
  struct member {
    socket_handle socket;
    message_reader reader;
    array<char> out;
    rank_process process{-1, 0, {}};
    rank_state state{};
    std::uint64_t last_heard = 0;
    bool known = false;     // has said who it is
    bool joined = false;    // is in the group
    bool newcomer = false;  // waits for the next one
    bool ended = false;     // has left in good order
    bool lost = false;
    bool answered = false;  // to the question of the report
    bool regroups = false;
    array<char> part;  // of the exchange under way
    bool has_part = false;
    text failure = "";  // what it says of itself
  };

  void run() noexcept;
  void serve();
  void accept_all();
  void handle(member& m, message_header const& header, char const* payload);
  void greet(member& m, hello_message const& hello);
  void refuse(member& m, text const& why, std::uint64_t how = 0);
  void ended(member& m);
  void failed(member& m, std::uint64_t in, text const& why);
  void form_first_group();
  void form_next_group();
  void send_group();
  void finish_exchange();
  void begin_report(text const& reason);
  void end_report();
  void send(member& m, std::uint32_t kind, std::uint64_t value, void const* data,
            std::size_t bytes);
  void send_all(std::uint32_t kind, std::uint64_t value, void const* data, std::size_t bytes);
  void flush(member& m);
  void check_times();
  [[nodiscard]] bool idle() const noexcept;
  [[nodiscard]] text missing_text() const;
  void find_hanging();

  socket_handle listener_, wake_, wake_end_;
  int ranks_;
  std::uint64_t nonce_, deadline_ns_, join_until_;
  std::uint64_t group_ = 0;      // number; 0: not all have come
  std::uint64_t exchange_ = 0;   // number of the last that is complete
  std::uint64_t report_at_ = 0;  // 0: no report is under way
  std::uint64_t next_beat_ = 0;
  bool reported_ = false;  // the group is lost
  bool hangs_ = false;     // the report is of a collective that does not end
  text reason_ = "";
  array<member*> members_;
  thread thread_;
  atomic<bool> stop_;
};

inline bool same_call(collective_call const& a, collective_call const& b) noexcept {
  return a.operation == b.operation && a.count == b.count && a.type == b.type &&
         a.reduction == b.reduction && a.root == b.root;
}

inline std::uint64_t nonce_of(std::string const& text) noexcept {  // FNV-1a
  std::uint64_t hash = 14695981039346656037U;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

[[nodiscard]] char const* collective_name(collective operation) noexcept;
[[nodiscard]] text call_text(collective_call const& call);
[[nodiscard]] text process_text(rank_process const& p);
[[nodiscard]] text ranks_text(array<int> const& ranks);

/// What a client tells its communicator, from the client's thread.
class store_events {
 public:
  virtual void describe(rank_state& state) noexcept = 0;
  /// @param ranks  that are lost, of the current group
  virtual void lost(char const* report, std::int32_t const* ranks, std::size_t count) noexcept = 0;
  /// Behind lost(): ends the collectives under way.
  virtual void end_calls() noexcept = 0;
  /// Another rank has ended in good order. @param called  its last collective
  virtual void left(std::uint64_t called) noexcept = 0;
  virtual void tick() noexcept = 0;
  virtual void begin_group() noexcept = 0;  // a new one; nothing is lost of it

 protected:
  ~store_events() = default;
};

/// How a rank comes to the store.
struct store_place {
  std::string host;
  int port = 0;
  int ports = 1;                                       // the store listens on one of so many
  std::string file;                                    // has the address; empty: it is known
  owned_function<void(void*, std::size_t)> broadcast;  // of rank 0's bytes, instead of either
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string nonce;
  bool joins = false;
};

/// The side of a rank: a connection and the thread that listens to it.
class store_client : noncopyable {
 public:
  /// Comes to the store, and waits until all have. @throws communicator_error
  store_client(store_place const& place, double deadline, source_location where);
  ~store_client();

  /// @param events  outlives the client. @throws std::bad_alloc, communicator_error
  void start(store_events& events, source_location where);
  /// Waits until all ranks of the group have come here, with a few bytes each.
  /// @param name  for the report if one does not come
  /// @param all   the bytes of all ranks, one behind another, each as many
  /// @return false: a rank is lost, or the store. Throws nothing else
  [[nodiscard]] bool exchange(char const* name, void const* mine, std::size_t bytes,
                              array<char>& all, double seconds);
  /// Reports that this rank cannot go on, or that a collective does not end.
  /// @param hangs  a collective does not end, of whichever rank
  void fail(text const& why, bool hangs = false) noexcept;
  /// Ends the connection in good order. @param exception  the reason, or null
  void leave(char const* exception) noexcept;
  /// Waits for a new group, of those that are left and those that have come.
  [[nodiscard]] bool regroup(double seconds);

  [[nodiscard]] int rank() const noexcept { return group_.rank; }
  [[nodiscard]] int ranks() const noexcept { return group_.ranks; }
  [[nodiscard]] rank_process const& process(int rank) const noexcept {
    return processes_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int newcomers() const noexcept { return newcomers_.load(memory_order::relaxed); }

 private:
  void find_store(store_place const& place, std::uint64_t until, source_location where);
  [[nodiscard]] bool try_store(store_place const& place, int port, std::uint64_t until,
                               text& problem, source_location where);
  void read_group(char const* payload, std::size_t bytes);
  void run() noexcept;
  void listen();
  void store_lost(char const* how);
  void lose(char const* report, std::int32_t const* ranks, std::size_t count) noexcept;
  [[nodiscard]] bool send(std::uint32_t kind, std::uint64_t value, void const* data,
                          std::size_t bytes) noexcept;
  void handle(message_header const& header, char const* payload);
  void send_state(bool asked) noexcept;

  socket_handle socket_;
  message_reader reader_;
  double deadline_;
  group_message group_{};
  array<rank_process> processes_;
  store_events* events_ = nullptr;
  mutex send_mutex_;
  event_count changed_;
  mutex mail_mutex_;
  array<char> mail_;  // of the last exchange
  std::uint64_t mail_number_ = 0;
  std::uint64_t exchanges_ = 0;  // that this rank has begun in the group
  atomic<std::uint64_t> group_number_;
  atomic<bool> losing_, lost_, stop_, store_ended_;
  atomic<int> newcomers_;
  bool rank_0_left_ = false;
  rank_state sent_{};
  std::uint64_t last_sent_ = 0, last_heard_ = 0;
  thread thread_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/rank_report_definitions.hpp>
#include <warpwright/scale/detail/store_client_definitions.hpp>
#include <warpwright/scale/detail/store_server_definitions.hpp>
#endif
