// The errors of error.h as Python classes of one family, each also of the built-in class that Python programs
// expect.
#include "bindings.h"
#include "hearth/chat_template.h"
#include "hearth/train.h"

namespace hearth::python {
namespace {

struct Row {
  PyObject* type;
  PyObject* (*matches)(const Error& error, PyObject* type);  // a new exception object, or null
};
std::vector<Row>& rows() {
  static std::vector<Row> table;
  return table;
}

template <typename E>
PyObject* matches(const Error& error, PyObject* type) {
  const E* own = dynamic_cast<const E*>(&error);
  if (!own) return nullptr;
  PyObject* exception = PyObject_CallFunction(type, "s", error.what());
  if (!exception) return nullptr;
  const nb::handle object = exception;
  if constexpr (std::is_same_v<E, CompileError>) object.attr("log") = own->log();
  if constexpr (std::is_same_v<E, OutOfMemory>) {
    object.attr("requested") = own->requested();
    object.attr("available") = own->available();
  }
  if constexpr (std::is_same_v<E, TemplateError>) object.attr("line") = own->line();
  if constexpr (std::is_same_v<E, train::NonFiniteLoss>) object.attr("step") = own->step();
  return exception;
}

template <typename E>
PyObject* add(nb::module_& m, const char* name, const char* doc, PyObject* base,
              PyObject* builtin = nullptr) {
  const nb::object bases = builtin ? nb::object(nb::make_tuple(nb::handle(base), nb::handle(builtin)))
                                   : nb::borrow(nb::handle(base));
  const std::string full = std::string("hearth._core.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::handle(type);
  rows().push_back({type, &matches<E>});
  return type;
}

}  // namespace

void bind_errors(nb::module_& m) {
  PyObject* base = add<Error>(m, "Error", "What Hearth raises.", PyExc_Exception);
  add<ShapeError>(m, "ShapeError", "Shapes that do not fit an operation or each other.", base,
                  PyExc_ValueError);
  add<DTypeError>(m, "DTypeError", "A dtype an operation does not take.", base, PyExc_TypeError);
  add<IndexError>(m, "IndexError", "An axis or element index out of range.", base, PyExc_IndexError);
  add<ValueError>(m, "ValueError", "Any other argument out of its allowed range.", base, PyExc_ValueError);
  add<DeviceUnavailable>(m, "DeviceUnavailable", "A device that was asked for and is not there.", base,
                         PyExc_RuntimeError);
  add<DeviceError>(m, "DeviceError", "A device that failed, or tensors on devices that do not fit together.",
                   base, PyExc_RuntimeError);
  add<CompileError>(m, "CompileError", "A kernel that did not compile; `log` is the compiler's text.", base,
                    PyExc_RuntimeError);
  add<OutOfMemory>(m, "OutOfMemory", "Memory could not be had; `requested` and `available` are bytes.", base,
                   PyExc_MemoryError);
  add<KernelError>(m, "KernelError", "A kernel that failed while running.", base, PyExc_RuntimeError);
  PyObject* library = add<LibraryError>(
      m, "LibraryError", "A library that computes for us refused or failed.", base, PyExc_RuntimeError);
  add<BlasError>(m, "BlasError", "A BLAS library refused or failed.", library);
  add<DnnError>(m, "DnnError", "A DNN library refused or failed.", library);
  add<MatrixUnitError>(m, "MatrixUnitError", "A matrix unit was demanded where there is none.", base,
                       PyExc_RuntimeError);
  add<OptimizationError>(m, "OptimizationError", "A plan pass or tuning step could not be carried out.", base,
                         PyExc_RuntimeError);
  add<ConfigError>(m, "ConfigError", "A configuration option with a wrong name or value.", base,
                   PyExc_ValueError);
  add<FileError>(m, "FileError", "A file that cannot be opened, read or written.", base, PyExc_OSError);
  add<FormatError>(m, "FormatError", "A file whose contents break the rules of its format.", base,
                   PyExc_ValueError);
  add<TemplateError>(m, "TemplateError", "A chat template that cannot be parsed or rendered.", base,
                     PyExc_ValueError);
  add<train::NonFiniteLoss>(m, "NonFiniteLoss", "A loss that is NaN or infinite.", base,
                            PyExc_ArithmeticError);

  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      // From the last to the first: derived classes come after their bases.
      for (auto row = rows().rbegin(); row != rows().rend(); ++row)
        if (PyObject* exception = row->matches(error, row->type)) {
          PyErr_SetObject(row->type, exception);
          Py_DECREF(exception);
          return;
        }
    }
  });
}

}  // namespace hearth::python
