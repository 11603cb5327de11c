// Freeing nodes.
#include "graph/node.h"

namespace hearth {

void destroy_node(Node* node) {
  // Deleting a node releases its inputs, which would recurse once per node of a chain. The outermost call
  // collects what the inner ones find and deletes it in a loop.
  thread_local SmallVector<Node*, 16>* pending = nullptr;
  if (pending) {
    pending->push_back(node);
    return;
  }
  SmallVector<Node*, 16> queue{node};
  pending = &queue;
  while (!queue.empty()) {
    Node* next = queue.back();
    queue.pop_back();
    delete next;
  }
  pending = nullptr;
}

}  // namespace hearth
