// The kernel of the seeds: small, with a variable that needs a relocation and one argument of each kind.
extern "C" {
__attribute__((device)) float scale = 2.5f;
__attribute__((device)) float* where = &scale;
__attribute__((global)) void axpy(int n, float* y) {
  const int i = __builtin_amdgcn_workitem_id_x();
  if (i < n) y[i] = *where * scale;
}
}
