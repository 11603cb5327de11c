// Building, patching and launching the graph of a plan.
//
// Each step's kernel writes its launches down (LaunchRecorder). The first run makes a chain of kernel nodes
// of them; what a library does besides launches becomes a graph within the graph. Later runs compare what
// each step is given with the last time; steps that were given something else write their launches down
// again, and the nodes that changed are patched.
#include "gpu/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gpu/launch_recorder.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Launch = LaunchRecorder::Launch;

// ROCm 6.2 and later give each updated node new memory for its arguments and free the old only with the graph
// (354 MiB after 64,000 updates were reported to AMD). So a graph is made anew after so many.
constexpr std::size_t most_updates = 4096;

class GraphReplay final : public Replay {
 public:
  explicit GraphReplay(GpuDevice& device) : device_(device) {}
  ~GraphReplay() override { destroy(); }
  GraphReplay(const GraphReplay&) = delete;
  GraphReplay& operator=(const GraphReplay&) = delete;

  void run(std::span<const StepRun> steps) override {
    device_.use();
    const bool worn = device_.driver().kind == DeviceKind::rocm && updates_ >= most_updates;
    if (executable_ == nullptr || steps.size() != steps_.size() || worn)
      build(steps);
    else
      try {
        patch(steps);
      } catch (const LibraryError&) {
        build(steps);
      } catch (...) {
        destroy();  // some nodes have new arguments, and steps_ does not say which
        throw;
      }
    device_.check(device_.driver().call.graph_launch(executable_, device_.stream()), "launching a graph");
  }

  bool unchanged(std::span<const StepRun> steps) const override {
    return std::equal(steps.begin(), steps.end(), steps_.begin(), steps_.end(),
                      [](const StepRun& run, const RecordedStep& step) { return step.same_arguments(run); });
  }

  std::size_t launches() const override {
    std::size_t count = 0;
    for (const RecordedStep& step : steps_) count += step.launches.size();
    return count;
  }

 private:
  struct RecordedStep {
    std::vector<void*> pointers;  // inputs, outputs, scratch
    std::vector<Number> numbers;
    std::vector<Launch> launches;
    std::vector<GraphNodeHandle> nodes;

    bool same_arguments(const StepRun& run) const {
      const KernelArguments& given = run.arguments;
      return std::equal(given.inputs, given.inputs + run.inputs, pointers.begin()) &&
             std::equal(given.outputs, given.outputs + run.outputs, pointers.begin() + run.inputs) &&
             given.scratch == pointers.back() &&
             (run.numbers == 0 ||
              std::memcmp(numbers.data(), given.numbers, run.numbers * sizeof(Number)) == 0);
    }
    void remember(const StepRun& run) {
      const KernelArguments& given = run.arguments;
      pointers.assign(given.inputs, given.inputs + run.inputs);
      pointers.insert(pointers.end(), given.outputs, given.outputs + run.outputs);
      pointers.push_back(given.scratch);
      numbers.assign(given.numbers, given.numbers + run.numbers);
    }
  };

  static std::vector<Launch> record(const StepRun& run) {
    LaunchRecorder recorder;
    run.kernel->run(run.arguments);
    return recorder.take();
  }

  // Calls use(node parameters) with the addresses of a launch's arguments.
  template <class Use>
  static int with_node(const Launch& launch, const Use& use) {
    SmallVector<void*, 24> addresses;
    for (const std::uint32_t offset : launch.offsets)
      addresses.push_back(const_cast<std::byte*>(launch.values.data() + offset));
    const KernelNode node{launch.function,      launch.shape.x,      launch.shape.y,  launch.shape.z,
                          launch.shape.threads, launch.shape.shared, addresses.data()};
    return use(node);
  }

  // What a library does is captured into a graph of its own.
  class Child {
   public:
    Child(const GpuDevice& device, const Launch& launch)
        : call_(device.driver().call), graph_(device.capture(launch.work)) {}
    ~Child() { call_.graph_destroy(graph_); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    GraphHandle graph() const { return graph_; }

   private:
    const DriverTable& call_;
    GraphHandle graph_;
  };

  // Blocks that are to spread over the device find the same room on each compute unit when the kernel before
  // them is spread out likewise, or when it has ended.
  static bool may_start_early(const Launch& launch, const Launch* last) {
    if (!launch.starts_early || last == nullptr || last->work) return false;
    return !launch.shape.spreads || last->shape.spreads;
  }

  int add_node(const Launch& launch, GraphNodeHandle& node, GraphNodeHandle last,
               const Launch* last_launch) const {
    const DriverTable& call = device_.driver().call;
    const std::size_t count = last != nullptr ? 1 : 0;
    if (launch.work) return call.graph_add_child(&node, graph_, &last, count, Child(device_, launch).graph());
    const bool early = may_start_early(launch, last_launch) && call.graph_follow_early != nullptr;
    const int code = with_node(launch, [&](const KernelNode& parameters) {
      return call.graph_add_kernel(&node, graph_, &last, early ? 0 : count, parameters);
    });
    return code == 0 && early ? call.graph_follow_early(graph_, last, node) : code;
  }

  int update_node(const Launch& launch, GraphNodeHandle node) const {
    const DriverTable& call = device_.driver().call;
    if (launch.work) return call.graph_update_child(executable_, node, Child(device_, launch).graph());
    return with_node(launch, [&](const KernelNode& parameters) {
      return call.graph_update_kernel(executable_, node, parameters);
    });
  }

  void build(std::span<const StepRun> steps) {
    // A kernel whose library fails says so once and then has launches of its own.
    for (int failures = 0;; ++failures) try {
        return try_build(steps);
      } catch (const LibraryError&) {
        if (failures == static_cast<int>(steps.size())) throw;
      }
  }

  void try_build(std::span<const StepRun> steps) {
    destroy();
    const DriverTable& call = device_.driver().call;
    device_.check(call.graph_create(&graph_, 0), "making a graph");
    GraphNodeHandle last = nullptr;
    const Launch* last_launch = nullptr;  // in a vector that moves as a whole
    for (const StepRun& run : steps) {
      RecordedStep step;
      step.remember(run);
      step.launches = record(run);
      for (const Launch& launch : step.launches) {
        GraphNodeHandle node = nullptr;
        device_.check(add_node(launch, node, last, last_launch), "adding to a graph");
        step.nodes.push_back(last = node);
        last_launch = &launch;
      }
      steps_.push_back(std::move(step));
    }
    int code = call.graph_instantiate(&executable_, graph_);
    if (code == device_.driver().codes.out_of_memory) {  // blocks kept for later may be what is missing
      device_.pool().empty_cache();
      code = call.graph_instantiate(&executable_, graph_);
    }
    device_.check(code, "instantiating a graph");
  }

  void patch(std::span<const StepRun> steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      RecordedStep& step = steps_[i];
      if (step.same_arguments(steps[i])) continue;
      std::vector<Launch> launches = record(steps[i]);
      // Another variant of the kernel, by alignment, may make other launches.
      const bool same_shape = std::equal(launches.begin(), launches.end(), step.launches.begin(),
                                         step.launches.end(), [](const Launch& a, const Launch& b) {
                                           return a.function == b.function && a.offsets == b.offsets;
                                         });
      if (!same_shape) return build(steps);
      for (std::size_t k = 0; k < launches.size(); ++k) {
        if (launches[k] == step.launches[k]) continue;
        const int code = update_node(launches[k], step.nodes[k]);
        ++updates_;
        if (launches[k].work && code != 0) return build(steps);  // the library does something else now
        device_.check(code, "changing a kernel of a graph");
      }
      step.launches = std::move(launches);
      step.remember(steps[i]);
    }
  }

  void destroy() {
    const DriverTable& call = device_.driver().call;
    if (!device_.try_use()) executable_ = graph_ = nullptr;  // gone with the device
    if (executable_ != nullptr) device_.destroy_graph(executable_);
    if (graph_ != nullptr) call.graph_destroy(graph_);
    executable_ = nullptr;
    graph_ = nullptr;
    updates_ = 0;
    steps_.clear();
  }

  GpuDevice& device_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle executable_ = nullptr;
  std::size_t updates_ = 0;  // of nodes, since the graph was made
  std::vector<RecordedStep> steps_;
};

}  // namespace

std::unique_ptr<Replay> make_replay(GpuDevice& device) { return std::make_unique<GraphReplay>(device); }

}  // namespace hearth::gpu
