import { type DetailsViewSectionProps, registerDetailsViewSection } from '@kinvolk/headlamp-plugin/lib';
import { Verdict } from './verdict';

registerDetailsViewSection(({ resource }: DetailsViewSectionProps) =>
  resource?.kind === 'Pod' ? (
    <Verdict
      key={resource.metadata.uid}
      namespace={resource.metadata.namespace ?? ''}
      name={resource.metadata.name}
      cluster={resource.cluster}
    />
  ) : null
);
