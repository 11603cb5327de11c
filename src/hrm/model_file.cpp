// Models as files.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/hrm.h"
#include "hearth/io.h"

namespace hearth::hrm {
namespace {
constexpr const char* config_key = "hearth_hrm_config";
}

void save_model(const std::filesystem::path& path, const Hrm& model, DType dtype,
                const std::map<std::string, std::string>& notes) {
  TensorMap tensors;
  for (const auto& [name, value] : model.state_dict()) tensors[name] = value.detach().to(dtype);
  Metadata metadata(notes.begin(), notes.end());
  metadata[config_key] = to_json(model.config());
  save_safetensors(path, tensors, metadata);
}

std::shared_ptr<Hrm> load_model(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(config_key);
  if (found == file.metadata().end())
    throw FormatError(
        fmt::format("{}: not a reasoning model: no \"{}\" in its metadata", path.string(), config_key));
  HrmConfig config = config_from_json(found->second);
  if (default_device().kind == DeviceKind::cpu) config.precision = DType::f32;
  auto model = std::make_shared<Hrm>(config);
  StateDict state;
  for (const std::string& name : file.names()) state[name] = file.tensor(name);
  model->load_state_dict(state);
  model->eval();
  return model;
}

}  // namespace hearth::hrm
