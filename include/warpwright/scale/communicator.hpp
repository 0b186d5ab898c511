// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a program, one a GPU, and NCCL between them. Ranks find each other by what torchrun,
// Slurm or mpirun say, within a deadline; when one of them ends, is stopped or fails, the others
// get an exception that names it.
//
//   ww::communicator comm{ww::rendezvous::from_environment(),
//                         ww::communicator_options{}.deadline(60.0)};
//   comm.all_reduce(stream, gradients.data(), gradients.size(), ww::reduction::average);
//   comm.synchronize(stream);  // throws rank_lost
//
// Link warpwright::nccl, or warpwright::host_nccl, which needs no GPU.
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/scale/detail/communicator_core.hpp>

#include <exception>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// How the ranks of a program find rank 0, which has the store: a value.
///
/// The store is a thread of rank 0's process, which listens on all addresses of its host, unless it
/// is at localhost. Each rank has a TCP connection to it, over which NCCL's id, a few small values
/// and the news of lost ranks go; it is not encrypted, and whoever reaches the port and knows the
/// nonce can join.
class rendezvous {
 public:
  /// By the variables of the launcher: torchrun, Open MPI, MPICH's or Slurm's PMI, Slurm. Rank 0 is
  /// at MASTER_ADDR, if that is set; else at Slurm's first host; else, where all ranks are on one
  /// host, there. It listens on the first free of 16 ports, from MASTER_PORT on or, without that,
  /// from one that the job's number gives. The nonce is the job's number.
  /// @throws communicator_error  if no launcher has set its variables, or half of them
  static rendezvous from_environment(source_location where = source_location::current());
  /// @param address  "host:port", of rank 0
  static rendezvous tcp(std::string const& address, int rank, int ranks,
                        source_location where = source_location::current());
  /// Rank 0 listens on any free port and writes its address to a file, which all ranks see, and
  /// which it removes at its end. A file of an earlier run is replaced.
  static rendezvous file(std::string const& path, int rank, int ranks,
                         source_location where = source_location::current());
  /// Rank 0 listens on any free port, and `broadcast(void* data, std::size_t bytes)` brings its
  /// bytes to all ranks, as MPI_Bcast does.
  template <class Broadcast>
  static rendezvous by(Broadcast broadcast, int rank, int ranks,
                       source_location where = source_location::current()) {
    rendezvous all{rank, ranks, where};
    all.place_.broadcast = detail::owned_function<void(void*, std::size_t)>{broadcast};
    return all;
  }

  /// @param text  the same in all ranks of a run, and different in each run: ranks of another run
  ///   that come to the same port or file are refused
  [[nodiscard]] rendezvous nonce(std::string const& text) const {
    rendezvous copy{*this};
    copy.place_.nonce = text;
    return copy;
  }
  /// For a process that joins a running program, by tcp() or file(): its communicator is made when
  /// the others call regroup(), and gives it its rank. It waits as long as the store answers.
  [[nodiscard]] rendezvous joining() const {
    rendezvous copy{*this};
    copy.place_.joins = true;
    return copy;
  }

  [[nodiscard]] int rank() const noexcept { return place_.rank; }
  [[nodiscard]] int ranks() const noexcept { return place_.ranks; }
  /// @return the number of this rank on its host, as the launcher says; else rank()
  [[nodiscard]] int local_rank() const noexcept { return place_.local_rank; }

 private:
  friend class communicator;
  rendezvous() = default;
  rendezvous(int rank, int ranks, source_location where);
  detail::store_place place_;
};

/// Options of communicator.
class communicator_options
    : public detail::options_base<communicator_options, detail::communicator_values> {
 public:
  /// How long ranks wait for each other: until all have come, NCCL has started, and all have come
  /// to a barrier(); and how long a rank may not answer, as it is stopped.
  /// @param seconds  above 0; default: 60
  [[nodiscard]] constexpr communicator_options deadline(double seconds) const {
    return with(&values::deadline, seconds);
  }
  /// Before each collective all ranks tell each other what they call, and where that differs none
  /// calls NCCL, which would hang or mix the data up. **Cost:** a round trip to rank 0 for each.
  [[nodiscard]] constexpr communicator_options checked(bool on = true) const {
    return with(&values::checked, on);
  }
};

enum class reduction { sum, product, max, min, average };

/// The ranks of a program, and the collectives of NCCL between them.
///
/// A child of fork() holds the connections open: while it lives, the others notice only behind the
/// deadline that its parent has ended.
/// After a rank is lost, the collectives under way end with any values in their outputs, and every
/// call throws rank_lost. So call synchronize() or check() before results are used, saved above
/// all.
/// @pre all ranks call the same collectives, of the same sizes, in the same order
/// **Threads:** calls of several threads are made one at a time; but their order must be that of
/// the other ranks.
/// **Stream:** a collective is ordered on its stream, of this communicator's device, and does not
/// block. **Capture:** collectives are legal. A communicator that ends while graphs have its
/// collectives ends NCCL when these are destroyed, in the background.
/// **Cost:** some 100 ns on top of NCCL's call.
class communicator {
 public:
  /// Waits until all ranks have come, and starts NCCL for the current device.
  /// @throws communicator_error  naming the ranks that have not come within the deadline, or what
  ///   differs between ranks; rank_lost when a rank ends meanwhile
  explicit communicator(rendezvous const& how, communicator_options const& options = {},
                        source_location where = source_location::current())
      : core_{new detail::communicator_core{how.place_, values_of(options), where}},
        exceptions_{std::uncaught_exceptions()} {}
  communicator(communicator&& other) noexcept
      : core_{detail::exchange(other.core_, nullptr)}, exceptions_{other.exceptions_} {}
  communicator& operator=(communicator&&) = delete;
  /// Ends it when the collectives so far have completed. Rank 0 waits until all ranks have ended
  /// theirs, at most for the deadline: they need its store. Destroyed by an exception it tells the
  /// other ranks, which get rank_lost.
  ~communicator() {
    detail::communicator_core::retire(core_, std::uncaught_exceptions() > exceptions_);
  }

  [[nodiscard]] int rank() const noexcept { return core_->rank(); }
  [[nodiscard]] int ranks() const noexcept { return core_->ranks(); }
  [[nodiscard]] device_id device() const noexcept { return device_id{core_->device()}; }
  /// @return NCCL's handle, of a communicator that blocks; null when a rank is lost, from the end
  /// of
  ///   an open group on
  [[nodiscard]] ncclComm_t get() const noexcept { return core_->get(); }

  /// out[i] = the sum (or else) of all ranks' in[i].
  /// @param in, out  device memory; may be the same
  /// @param count    elements
  /// @throws rank_lost, communicator_error
  template <class T>
  void all_reduce(stream_ref stream, T const* in, T* out, std::size_t count,
                  reduction how = reduction::sum,
                  source_location where = source_location::current()) {
    ncclRedOp_t const op = operation_of(how);
    run<T>(stream, detail::collective::all_reduce, count, count, op, 0, "ncclAllReduce", where,
           [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclAllReduce(in, out, count, type, op, comm, s);
           });
  }
  /// As above, in place.
  template <class T>
  void all_reduce(stream_ref stream, T* data, std::size_t count, reduction how = reduction::sum,
                  source_location where = source_location::current()) {
    all_reduce<T>(stream, data, data, count, how, where);
  }
  /// Each rank gets its part of the sum.
  /// @param in     count * ranks() elements
  /// @param out    count elements; may be in + rank() * count
  template <class T>
  void reduce_scatter(stream_ref stream, T const* in, T* out, std::size_t count,
                      reduction how = reduction::sum,
                      source_location where = source_location::current()) {
    ncclRedOp_t const op = operation_of(how);
    run<T>(stream, detail::collective::reduce_scatter, count, count * size(), op, 0,
           "ncclReduceScatter", where, [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclReduceScatter(in, out, count, type, op, comm, s);
           });
  }
  /// All ranks get the parts of all.
  /// @param in     count elements; may be out + rank() * count
  /// @param out    count * ranks() elements
  template <class T>
  void all_gather(stream_ref stream, T const* in, T* out, std::size_t count,
                  source_location where = source_location::current()) {
    run<T>(stream, detail::collective::all_gather, count, count * size(), ncclSum, 0,
           "ncclAllGather", where, [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclAllGather(in, out, count, type, comm, s);
           });
  }
  /// All ranks get what `root` has.
  template <class T>
  void broadcast(stream_ref stream, T* data, std::size_t count, int root = 0,
                 source_location where = source_location::current()) {
    run<T>(stream, detail::collective::broadcast, count, count, ncclSum, root, "ncclBroadcast",
           where, [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclBroadcast(data, data, count, type, root, comm, s);
           });
  }
  /// Sends to one rank, which calls receive(). Pairs that wait for each other belong into a
  /// group().
  template <class T>
  void send(stream_ref stream, T const* data, std::size_t count, int peer,
            source_location where = source_location::current()) {
    run<T>(stream, detail::collective::send, count, count, ncclSum, peer, "ncclSend", where,
           [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclSend(data, count, type, peer, comm, s);
           });
  }
  template <class T>
  void receive(stream_ref stream, T* data, std::size_t count, int peer,
               source_location where = source_location::current()) {
    run<T>(stream, detail::collective::receive, count, count, ncclSum, peer, "ncclRecv", where,
           [=](ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
             return ncclRecv(data, count, type, peer, comm, s);
           });
  }
  /// Calls `collectives()`, whose calls become one of NCCL. If it throws, the communicator fails.
  template <class F>
  void group(F&& collectives, source_location where = source_location::current()) {
    core_->group(collectives, where);
  }

  /// Waits until all ranks have come here: the hosts, not the streams.
  /// @throws rank_lost  naming those that have not come within the deadline
  /// **Cost:** a round trip to rank 0.
  void barrier(source_location where = source_location::current()) {
    detail::array<char> nothing;
    core_->exchange("barrier()", nullptr, 0, nothing, where);
  }
  /// Waits for a stream, and throws if its collectives may not have completed.
  /// @throws rank_lost, communicator_error, cuda_error
  void synchronize(stream_ref stream, source_location where = source_location::current()) {
    stream.synchronize(where);
    core_->check(where);
  }
  /// Throws if a rank is lost, or NCCL has failed.
  /// @throws rank_lost, communicator_error
  void check(source_location where = source_location::current()) const { core_->check(where); }
  /// Gathers a value of each rank, by way of the hosts.
  /// @tparam T  trivially copyable, up to some KiB
  /// @return one of each rank
  template <class T>
  std::vector<T> gather(T const& mine, source_location where = source_location::current()) {
    static_assert(std::is_trivially_copyable<T>::value,
                  "warpwright: communicator::gather() sends bytes: T must be trivially copyable");
    detail::array<char> bytes;
    core_->exchange("gather()", &mine, sizeof mine, bytes, where);
    std::vector<T> all(size(), mine);
    T one{mine};
    for (std::size_t r = 0; r < all.size(); ++r) {
      __builtin_memcpy(static_cast<void*>(&one), bytes.begin() + r * sizeof one, sizeof one);
      all[r] = one;
    }
    return all;
  }
  /// Ends the program's other ranks' waiting: they get rank_lost with this text, and so does this
  /// one as soon as the store has told it, some milliseconds later.
  void abort(std::string const& reason) noexcept { core_->abort(reason.c_str()); }
  /// Forms a new group: of the ranks that are left and call this within the deadline, in the order
  /// of their ranks, and of the processes that wait to join. rank() and ranks() change.
  /// @pre no graph has collectives of this communicator
  /// @throws communicator_error  when rank 0, which has the store, is lost
  void regroup(source_location where = source_location::current()) { core_->regroup(where); }
  /// @return processes that wait to join, of which regroup() makes ranks; ranks hear of them at
  ///   different times, so gather() it before all decide
  [[nodiscard]] int newcomers() const noexcept { return core_->newcomers(); }

 private:
  friend detail::communicator_core& core_of(communicator& comm) noexcept { return *comm.core_; }

  static constexpr ncclRedOp_t operation_of(reduction how) noexcept {
    return how == reduction::sum       ? ncclSum
           : how == reduction::product ? ncclProd
           : how == reduction::max     ? ncclMax
           : how == reduction::min     ? ncclMin
                                       : ncclAvg;
  }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(ranks()); }
  template <class T, class Call>
  void run(stream_ref stream, detail::collective operation, std::size_t count, std::size_t largest,
           ncclRedOp_t how, int root, char const* name, source_location where, Call const& call) {
    using type = detail::nccl_type_of<std::remove_cv_t<T>>;
    detail::collective_call const about{0,
                                        count,
                                        largest * sizeof(T),
                                        operation,
                                        static_cast<std::uint8_t>(type::value),
                                        static_cast<std::uint8_t>(how),
                                        0,
                                        root};
    core_->run(
        stream, about, [&](ncclComm_t comm, cudaStream_t s) { return call(type::value, comm, s); },
        name, where);
  }

  detail::communicator_core* core_;
  int exceptions_;
};

WARPWRIGHT_END

#include <warpwright/scale/detail/rendezvous_definitions.hpp>
